pub(crate) const COLUMNS: usize = 80;

/// Wraps `text` at spaces, after `first`, which sets the indent. Longer words get their own line.
pub(crate) fn wrapped(first: &str, text: &str) -> String {
    let margin = first.chars().count();
    let (mut page, mut column, mut fresh) = (first.to_owned(), margin, true);
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if !fresh && column + 1 + length > COLUMNS {
            page.push('\n');
            page.extend(core::iter::repeat_n(' ', margin));
            (column, fresh) = (margin, true);
        }
        if !fresh {
            page.push(' ');
            column += 1;
        }
        page.push_str(word);
        column += length;
        fresh = false;
    }
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_within_the_terminal_and_hang_below_the_first() {
        let page = wrapped("  name  ", &"wörd ".repeat(40));
        let lines: Vec<_> = page.lines().collect();
        assert!(lines.iter().all(|line| line.chars().count() <= COLUMNS), "{page}");
        assert_eq!(lines[0].chars().count(), 77);
        assert!(lines[1].starts_with("        wörd"), "{page}");
        assert_eq!(page.split_whitespace().count(), 41);
    }

    #[test]
    fn a_word_longer_than_a_line_stays_whole() {
        let long = "x".repeat(100);
        assert_eq!(wrapped("- ", &format!("{long} y")), format!("- {long}\n  y\n"));
        assert_eq!(wrapped("  ", ""), "\n");
    }
}
