//! Checks that a page is well-formed XML: browsers hide errors.

#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) elements: Vec<String>,
    pub(crate) text: String,
}

pub(crate) fn read(page: &str) -> Result<Seen, String> {
    let mut seen = Seen::default();
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page.strip_prefix("<!DOCTYPE html>").ok_or("no document type")?;
    while let Some(at) = rest.find('<') {
        seen.text += &text(&rest[..at])?;
        let begin = &rest[at + 1..];
        let end = begin.find('>').ok_or("a tag without an end")?;
        let tag = &begin[..end];
        rest = &begin[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            let last = open.pop();
            if last != Some(name) {
                return Err(format!("</{name}> ends {last:?}"));
            }
            continue;
        }
        let (tag, alone) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(format!("<{name}> is no name"));
        }
        check_attributes(attributes)?;
        seen.elements.push(name.to_owned());
        if !alone {
            open.push(name);
        }
    }
    match open.is_empty() {
        true => Ok(seen),
        false => Err(format!("{open:?} do not end")),
    }
}

fn check_attributes(attributes: &str) -> Result<(), String> {
    let mut rest = attributes.trim_start();
    while !rest.is_empty() {
        let (name, value) = rest.split_once("=\"").ok_or(format!("`{rest}` is no attribute"))?;
        let known = name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-');
        let (value, after) = value.split_once('"').ok_or(format!("{name} does not end"))?;
        if !known {
            return Err(format!("`{name}` is no name of an attribute"));
        }
        text(value)?;
        rest = after.trim_start();
    }
    Ok(())
}

fn text(text: &str) -> Result<String, String> {
    let controls = |letter: char| letter.is_control() && letter != '\n';
    if let Some(letter) = text.chars().find(|letter| controls(*letter) || *letter == '>') {
        return Err(format!("{letter:?} in {text:?}"));
    }
    let mut out = String::new();
    for (index, part) in text.split('&').enumerate() {
        if index == 0 {
            out += part;
            continue;
        }
        let (name, after) = part.split_once(';').ok_or(format!("& alone in {text:?}"))?;
        out += match name {
            "amp" => "&",
            "lt" => "<",
            "gt" => ">",
            "quot" => "\"",
            "#39" => "'",
            _ => return Err(format!("&{name}; is unknown")),
        };
        out += after;
    }
    Ok(out)
}
