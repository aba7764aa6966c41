//! Meaning of options for a comparison: why it matters when contenders differ in one, and whether one may change
//! while a race runs. Transports share these meanings, and may have one of their own for an option.

use std::sync::LazyLock;

use deadheat_contract::recorded::Meaning;

/// Option that names the congestion control.
pub const CC: &str = "cc";

/// Meaning of `nodelay` of the kernel's streams; another protocol has an option of that name with another meaning.
pub const NODELAY: Meaning = Meaning::always(
    "nodelay",
    "without it, small messages may wait for acknowledgements (Nagle, RFC 896)",
);

/// Meaning of `ecn`, whose value in force may have several remarks behind it: `on, validated`.
const ECN: Meaning = Meaning {
    remarks: &[" (", ", ", ": "],
    ..Meaning::always(
        "ecn",
        "a queue that marks packets slows one side down without a loss, and drops those of the other",
    )
};

/// Meanings of other options, a line each: when it must not change, name, and why it matters.
const TEXT: &str = include_str!("options.txt");

/// Meanings of the options that transports share.
pub(super) static SHARED: LazyLock<Vec<Meaning>> = LazyLock::new(|| {
    let meaning = |line: &'static str| {
        let (name, matters) = line.split_once(": ")?;
        match name.split_once(' ')? {
            ("always", name) => Some(Meaning::always(name, matters)),
            (_, name) => Some(Meaning::where_asked(name, matters)),
        }
    };
    TEXT.lines().filter_map(meaning).chain([ECN]).collect()
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_the_meaning_of_an_option() {
        assert_eq!(SHARED.len(), TEXT.lines().count() + 1);
        assert!(TEXT.lines().all(|line| line.starts_with("always ") || line.starts_with("asked ")));
    }
}
