//! Commands that a user is told to type.

/// A word as a shell takes it: as it is, or between single quotes.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("/usr/share/dict/words"), "/usr/share/dict/words");
        assert_eq!(quoted("my file's"), r"'my file'\''s'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("$(rm x)"), "'$(rm x)'");
    }
}
