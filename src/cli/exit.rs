//! Exit codes of the program, once: the program returns them, and documents and the manual show this list.

/// Exit codes with what each says of a run.
pub const CODES: &[(u8, &str)] = &[
    (FINE, "it ran, and can be trusted"),
    (FAILED, "it failed"),
    (USAGE, "the command line is wrong"),
    (DOUBTFUL, "it ran, and is not to be trusted"),
    (UNDECIDED, "with `--decided`: a claim is undecided"),
    (WORSE, "with `--gate`: a contender got worse"),
];

pub(super) const FINE: u8 = 0;
pub(super) const FAILED: u8 = 1;
pub(super) const USAGE: u8 = 2;
pub(super) const DOUBTFUL: u8 = 3;
pub(super) const UNDECIDED: u8 = 4;
pub(super) const WORSE: u8 = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_base::error::Error;

    #[test]
    fn errors_end_with_the_codes_of_the_list() {
        let setup = Error::setup("open a file", std::io::Error::other("no"));
        assert_eq!([Error::usage("x").exit_code(), setup.exit_code()], [USAGE, FAILED]);
    }
}
