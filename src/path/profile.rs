//! Paths by name.

/// A kind of access or route, as the words of a link.
#[derive(Debug, Clone, Copy)]
pub struct Profile {
    /// What it is called.
    pub name: &'static str,
    /// Its keys, as they would be typed.
    pub text: &'static str,
    /// What it stands for, in one line.
    pub summary: &'static str,
    /// Where the values are from, and which are a judgement.
    pub source: &'static str,
}

/// Every profile.
pub const ALL: &[Profile] = &[Profile {
    name: "transatlantic",
    text: "delay=40ms",
    summary: "between the coasts of North America and Europe, on a backbone that is not full",
    source: "",
}];
