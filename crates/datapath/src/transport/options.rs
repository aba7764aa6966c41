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

/// Meanings of the options that transports share.
pub(super) static SHARED: LazyLock<Vec<Meaning>> = LazyLock::new(|| {
    let meaning = |line: &'static str| {
        let (name, matters) = line.split_once(": ")?;
        let (when, name) = name.split_once(' ')?;
        let remarks: &[&str] = if name == "ecn" { &[" (", ", ", ": "] } else { &[" ("] };
        Some(Meaning { name, matters, is_fixed: when == "always", remarks })
    };
    include_str!("options.txt").lines().filter_map(meaning).collect()
});
