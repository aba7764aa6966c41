//! Values that are omitted in files.

/// Returns true if a value is the default of its type, which is omitted in files: 0, false, empty, none.
pub fn is_unset<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_nothing_is_unset() {
        assert!(is_unset(&0u64) && is_unset(&false) && is_unset(&String::new()));
        assert!(!is_unset(&1u64) && !is_unset(&true) && !is_unset(&Some(0)));
    }
}
