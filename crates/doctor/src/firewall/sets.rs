//! Named sets of ports in what nft lists.

/// A set that holds nothing but ports.
#[derive(Debug, PartialEq, Eq)]
struct PortSet<'a> {
    /// A rule sees only the sets of its own table.
    table: &'a str,
    name: &'a str,
    /// As nft writes them between braces.
    elements: String,
}

/// The rules, with what each set of ports holds in the place of its name. Others stay names.
pub(super) fn resolved(text: &str) -> String {
    let sets = sets(text);
    let mut table = "";
    let mut rules = String::with_capacity(text.len());
    for line in text.lines() {
        table = line.trim().strip_prefix("table ").unwrap_or(table);
        let named = line.split_once("dport @").and_then(|(before, after)| {
            let (name, rest) = after.split_once(' ').unwrap_or((after, ""));
            let set = sets.iter().find(|set| set.table == table && set.name == name)?;
            Some(format!("{before}dport {{ {} }} {rest}", set.elements))
        });
        rules += named.as_deref().unwrap_or(line);
        rules.push('\n');
    }
    rules
}

fn sets(text: &str) -> Vec<PortSet<'_>> {
    let mut found = Vec::new();
    let mut lines = text.lines().map(str::trim);
    let mut table = "";
    while let Some(line) = lines.next() {
        table = line.strip_prefix("table ").unwrap_or(table);
        let Some(name) = line.strip_prefix("set ") else { continue };
        let name = name.trim_end_matches('{').trim();
        // It ends with a brace in a line of its own; that of its elements has others beside it.
        let body: Vec<_> = lines.by_ref().take_while(|line| *line != "}").collect();
        if !body.contains(&"type inet_service") {
            continue;
        }
        let body = body.join(" ");
        let elements = body.split_once("elements = {").and_then(|(_, rest)| rest.split_once('}'));
        let elements = elements.map_or("", |(elements, _)| elements.trim()).to_owned();
        found.push(PortSet { table, name, elements });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = "table inet filter {
\tset audio {
\t\ttype inet_service
\t\tflags interval
\t\telements = { 5004-5005, 6000,
\t\t\t     7000 }
\t}

\tset friends {
\t\ttype ipv4_addr
\t\telements = { 10.0.0.1 }
\t}

\tchain input {
\t\tudp dport @audio counter accept
\t\tudp dport @elsewhere accept
\t\tip saddr @friends accept
\t}
}
table ip other {
\tset elsewhere {
\t\ttype inet_service
\t}
}
";

    #[test]
    fn a_rule_sees_the_ports_of_its_own_tables_set() {
        let resolved = resolved(RULES);
        let rules: Vec<_> =
            resolved.lines().map(str::trim).filter(|line| line.ends_with("accept")).collect();
        let read = "udp dport { 5004-5005, 6000, 7000 } counter accept";
        assert_eq!(rules, [read, "udp dport @elsewhere accept", "ip saddr @friends accept"]);
    }
}
