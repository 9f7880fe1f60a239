use std::fmt;
use std::str::FromStr;

use tautline_proto::device::DeviceError;

const OPTIONS: &str = "connect=none, connect=BEGINNING-OF-A-PORT or server=NAME";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Connect {
    Card,
    Nothing,
    To(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JackSpec {
    pub(crate) client: String,
    pub(crate) connect: Connect,
    pub(crate) server: Option<String>,
    pub(crate) at_ports: bool,
}

impl JackSpec {
    pub(crate) fn named(client: &str) -> Self {
        Self { client: client.to_owned(), connect: Connect::Card, server: None, at_ports: false }
    }

    pub(crate) fn error(&self, answer: impl Into<String>, hint: impl Into<String>) -> DeviceError {
        DeviceError { tried: self.to_string(), answer: answer.into(), hint: hint.into() }
    }
}

impl FromStr for JackSpec {
    type Err = DeviceError;

    fn from_str(rest: &str) -> Result<Self, DeviceError> {
        let refuse = |answer: String, hint: &str| DeviceError {
            tried: format!("jack:{rest}"),
            answer,
            hint: hint.to_owned(),
        };
        let (name, query) = rest.split_once('?').unwrap_or((rest, ""));
        if name.is_empty() {
            return Err(refuse("the name is missing".into(), "name the client, such as jack:taut"));
        }
        if name.contains([':', '/', '\0']) {
            let answer = format!("invalid client name '{name}'");
            return Err(refuse(answer, "use a name without : and /, such as jack:taut"));
        }
        let mut spec = Self::named(name);
        for option in query.split('&').filter(|option| !option.is_empty()) {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            match (key, value) {
                ("connect" | "server", "") => {
                    return Err(refuse(format!("{key} has no value"), &format!("use {OPTIONS}")));
                }
                ("connect", "none") => spec.connect = Connect::Nothing,
                ("connect", begin) => spec.connect = Connect::To(begin.to_owned()),
                ("server", server) => spec.server = Some(server.to_owned()),
                _ => {
                    let answer = format!("unknown option '{key}'");
                    return Err(refuse(answer, &format!("use {OPTIONS}")));
                }
            }
        }
        Ok(spec)
    }
}

impl fmt::Display for JackSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "jack:{}", self.client)
    }
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;

    #[test]
    fn a_name_and_its_options_are_read() {
        let spec: JackSpec = "my taut?connect=ardour:in&server=studio".parse().unwrap();
        assert_eq!(spec.client, "my taut");
        assert_eq!(spec.connect, Connect::To("ardour:in".to_owned()));
        assert_eq!(spec.server.as_deref(), Some("studio"));
        assert_eq!("x".parse(), Ok(JackSpec::named("x")));
        let none: JackSpec = "x?connect=none".parse().unwrap();
        assert_eq!(none.connect, Connect::Nothing);
        assert_eq!(spec.to_string(), "jack:my taut");
    }

    #[test]
    fn invalid_jack_address_has_a_hint() {
        for rest in ["", "?server=x", "a:b", "a/b", "a?port=3", "a?connect=", "a?server"] {
            let sentence = rest.parse::<JackSpec>().expect_err(rest).to_string();
            snapshot!(format!("{rest:?}"), sentence);
        }
    }
}
