//! Compares JSON shapes in help texts with the JSON written.

/// Field names of the JSON shape in a help text from `begin` on, each prefixed with its parents.
///
/// # Panics
///
/// If the help has no such shape.
#[track_caller]
pub fn shape_in_help(help: &str, begin: &str) -> Vec<String> {
    let at = help.find(begin).expect("the help has this shape");
    // A string after a colon or a bar is a value.
    names(&help[at..], |before, _| !before.ends_with([':', '|']))
}

/// Field names of a JSON object; the names of array elements only once.
pub fn shape_of_json(json: &str) -> Vec<String> {
    names(json, |_, after| after.starts_with(':'))
}

/// Asserts that the JSON shape in a help text has exactly the fields of `json`.
///
/// # Panics
///
/// If they differ.
#[track_caller]
pub fn assert_shape(help: &str, begin: &str, json: &str) {
    assert_eq!(shape_in_help(help, begin), shape_of_json(json));
}

/// `is_name` distinguishes them from values.
fn names(object: &str, is_name: impl Fn(&str, &str) -> bool) -> Vec<String> {
    let parts: Vec<&str> = object.split('"').collect();
    let (mut all, mut within, mut last) = (Vec::new(), Vec::new(), "");
    for (at, part) in parts.iter().enumerate() {
        if at % 2 == 0 {
            for letter in part.chars() {
                match letter {
                    '{' => within.push(last),
                    '}' => last = within.pop().unwrap_or_default(),
                    _ => continue,
                }
                if within.is_empty() {
                    return all;
                }
            }
        } else if is_name(parts[at - 1].trim_end(), parts.get(at + 1).unwrap_or(&"")) {
            last = part;
            let name = within.iter().skip(1).chain([&last]).copied().collect::<Vec<_>>().join(".");
            if !all.contains(&name) {
                all.push(name);
            }
        }
    }
    panic!("the object has no end: {object}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_their_place_and_values_are_none() {
        let help =
            r#"For scripts: { "a": "x" | "y", "b": [ { "c", "d": null } of each ], "c" } and more"#;
        let names = ["a", "b", "b.c", "b.d", "c"];
        assert_eq!(shape_in_help(help, "{ \"a\""), names);
        let json = r#"{"a":"b","b":[{"c":1,"d":"c"},{"c":2,"d":null}],"c":["a","d"]}"#;
        assert_eq!(shape_of_json(json), names);
    }
}
