//! Commands that a user is told to type.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A word as a shell takes it: as it is, or between single quotes.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The name of a file, of whatever bytes, as a shell and then a program takes it: no option, and, between the quotes of `$'…'`, as
/// escapes what a terminal or a reader may not show.
pub fn quoted_path(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    let begin = if bytes.first() == Some(&b'-') { "./" } else { "" };
    let is_shown =
        |c: char| c.is_ascii_graphic() || c == ' ' || (!c.is_ascii() && c.is_alphanumeric());
    if let Some(name) = path.to_str().filter(|name| name.chars().all(is_shown)) {
        return quoted(&format!("{begin}{name}"));
    }
    let mut word = format!("$'{begin}");
    for byte in bytes {
        match byte {
            b'\'' | b'\\' => word.extend(['\\', char::from(*byte)]),
            b' '..=b'~' => word.push(char::from(*byte)),
            byte => word += &format!("\\x{byte:02x}"),
        }
    }
    word + "'"
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("/usr/share/dict/words"), "/usr/share/dict/words");
        assert_eq!(quoted("my file's"), r"'my file'\''s'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("$(rm x)"), "'$(rm x)'");
    }

    #[test]
    fn names_of_any_bytes_are_quoted_for_a_shell() {
        let of = |name: &[u8]| quoted_path(Path::new(OsStr::from_bytes(name)));
        assert_eq!(of(b"/a/b-c"), "/a/b-c");
        assert_eq!(of("na\u{ef}ve n".as_bytes()), "'na\u{ef}ve n'");
        assert_eq!(of(b"-x"), "./-x");
        assert_eq!(of(b"-x y"), "'./-x y'");
        assert_eq!(of(b"-\n"), r"$'./-\x0a'");
        assert_eq!(of(b"it's\\\t\xffa"), r"$'it\'s\\\x09\xffa'");
        assert_eq!(of("\u{202e}b".as_bytes()), r"$'\xe2\x80\xaeb'");
    }
}
