//! Formats a command for a shell.

use std::path::Path;

/// Formats a command as a user types it, program first.
pub fn shell_line(mut words: impl Iterator<Item = String>) -> String {
    let program = words.next().unwrap_or_default();
    let name = Path::new(&program).file_name().map_or("taut".into(), |name| name.to_string_lossy());
    words.fold(name.into_owned(), |line, word| {
        let plain = |letter: char| letter.is_alphanumeric() || "-_=:/.,+@%".contains(letter);
        match !word.is_empty() && word.chars().all(plain) {
            true => format!("{line} {word}"),
            false => format!("{line} '{}'", word.replace('\'', r"'\''")),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_command_is_quoted_for_a_shell() {
        let words = ["/usr/bin/taut", "send", "--to", "rtp://[::1]:5004?ttl=2", "a b", "it's"];
        let reported = shell_line(words.into_iter().map(str::to_owned));
        assert_eq!(reported, r"taut send --to 'rtp://[::1]:5004?ttl=2' 'a b' 'it'\''s'");
    }
}
