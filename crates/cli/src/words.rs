//! A line of a command as words, for the shell.
//!
//! Blanks stand between words. Any byte can be written: `\n`, `\r`, `\t` and `\xNN` as scan shows
//! them, `\` before any other character that is not a letter or digit means that character, and
//! what stands in double quotes is one word, blanks and all.

use crate::keys::from_hex;

/// The words of a line, or what is wrong with it.
pub fn split(line: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let (mut rest, mut is_quoted) = (line, false);
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'"' => {
                is_quoted = !is_quoted;
                word.get_or_insert_default();
            }
            b'\\' => {
                let (meant, after) = escape(rest)?;
                word.get_or_insert_default().push(meant);
                rest = after;
            }
            b' ' | b'\t' | b'\r' | b'\n' if !is_quoted => words.extend(word.take()),
            byte => word.get_or_insert_default().push(*byte),
        }
    }
    if is_quoted {
        return Err("a quoted word has no end: add '\"', or write \\\" for the character".into());
    }
    words.extend(word);
    Ok(words)
}

/// The byte that is written behind a backslash, and what follows it.
fn escape(text: &[u8]) -> Result<(u8, &[u8]), String> {
    let (byte, rest) = text.split_first().ok_or("a backslash at the end: write \\\\ for one")?;
    match byte {
        b'n' => Ok((b'\n', rest)),
        b'r' => Ok((b'\r', rest)),
        b't' => Ok((b'\t', rest)),
        b'x' => match rest.split_at_checked(2).map(|(digits, rest)| (from_hex(digits), rest)) {
            Some((Ok(bytes), rest)) if bytes.len() == 1 => Ok((bytes[0], rest)),
            _ => Err("\\x must be followed by two hexadecimal digits".into()),
        },
        byte if byte.is_ascii_alphanumeric() => {
            Err(format!("\\{} means nothing: write \\\\ for a backslash", char::from(*byte)))
        }
        byte => Ok((*byte, rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::split;
    use crate::output::escaped;

    #[test]
    fn blanks_quotes_and_escapes() {
        let words = |line: &str| {
            let words = split(line.as_bytes()).expect("words");
            words.iter().map(|word| String::from_utf8(word.clone()).expect("text")).collect()
        };
        let cases: [(&str, &[&str]); 7] = [
            ("", &[]),
            ("  put\ta  b\r\n", &["put", "a", "b"]),
            ("put \"a b\" \"\"", &["put", "a b", ""]),
            ("a\"b c\"d", &["ab cd"]),
            ("\\\"\\\\\\ x \\x41\\n", &["\"\\ x", "A\n"]),
            ("\"\\\" \\t\"", &["\" \t"]),
            ("naïve", &["naïve"]),
        ];
        for (line, expected) in cases {
            let found: Vec<String> = words(line);
            assert_eq!(found, expected, "{line}");
        }
        for bad in ["\"", "a \"b", "\\", "\\x4", "\\xg0", "\\q", "\\x"] {
            assert!(split(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_shown_can_be_typed() {
        let bytes: Vec<u8> = (0..=255).chain("naïve\u{202e}".bytes()).collect();
        let shown = format!("\"{}\"", escaped(&bytes).replace('"', "\\\""));
        assert_eq!(split(shown.as_bytes()), Ok(vec![bytes]));
    }
}
