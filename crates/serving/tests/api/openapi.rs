//! The OpenAPI description matches the server.

use std::collections::BTreeSet;

use crate::common::{plugin, request, serving};
use serde_json::Value;
use tautline_api::v1::{
    FedStream, PipelinePlace, SecretText, StreamPhase, StreamRequest, WorkRefused,
};
use tautline_serving::{ApiCall, OPENAPI};

struct Schemas {
    description: Value,
    seen: BTreeSet<String>,
}

impl Schemas {
    fn new() -> Self {
        Self { description: serde_json::from_str(OPENAPI).unwrap(), seen: BTreeSet::new() }
    }

    fn named(&self, reference: &str) -> (String, Value) {
        let name = reference.strip_prefix("#/components/schemas/").unwrap();
        let schema = &self.description["components"]["schemas"][name];
        assert!(schema.is_object(), "{name} is described nowhere");
        (name.to_owned(), schema.clone())
    }

    fn check(&mut self, value: &Value, schema: &Value, name: &str) -> Result<(), String> {
        if let Some(reference) = schema["$ref"].as_str() {
            let (name, schema) = self.named(reference);
            return self.check(value, &schema, &name);
        }
        if let Some(all) = schema["oneOf"].as_array() {
            let fits = all.iter().filter(|one| self.check(value, one, name).is_ok()).count();
            return if fits == 1 { Ok(()) } else { Err(format!("{name}: {value} fits {fits}")) };
        }
        let kinds: Vec<&str> = match &schema["type"] {
            Value::String(kind) => vec![kind],
            several => several.as_array().unwrap().iter().filter_map(Value::as_str).collect(),
        };
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(_) if !kinds.contains(&"number") && value.is_u64() => "integer",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        if !kinds.contains(&kind) {
            return Err(format!("{name}: {value} is {kind} and not {kinds:?}"));
        }
        if schema["enum"].as_array().is_some_and(|known| !known.contains(value)) {
            return Err(format!("{name}: {value} is not among them"));
        }
        if let Some(items) = value.as_array() {
            return items.iter().try_for_each(|item| self.check(item, &schema["items"], name));
        }
        self.check_fields(value, schema, name)
    }

    fn check_fields(&mut self, value: &Value, schema: &Value, name: &str) -> Result<(), String> {
        let (Some(fields), Some(known)) = (value.as_object(), schema["properties"].as_object())
        else {
            return Ok(());
        };
        for (field, value) in fields {
            let schema =
                known.get(field).ok_or_else(|| format!("{name}.{field} is not described"))?;
            self.check(value, schema, &format!("{name}.{field}"))?;
            if !value.is_null() {
                self.seen.insert(format!("{name}.{field}"));
            }
        }
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        let lacks = required.iter().filter_map(Value::as_str).find(|r| !fields.contains_key(*r));
        lacks.map_or(Ok(()), |lacks| Err(format!("{name} lacks {lacks}")))
    }

    fn all(&self) -> BTreeSet<String> {
        let schemas = self.description["components"]["schemas"].as_object().unwrap();
        let mut all = BTreeSet::new();
        for (name, schema) in schemas {
            let variants = schema["oneOf"].as_array().cloned().unwrap_or_default();
            for schema in variants.iter().chain([schema]) {
                let fields = schema["properties"].as_object().into_iter().flatten();
                all.extend(fields.map(|(field, _)| format!("{name}.{field}")));
            }
        }
        all
    }
}

#[test]
fn every_path_and_method_is_described_and_no_other() {
    let description: Value = serde_json::from_str(OPENAPI).unwrap();
    let paths = description["paths"].as_object().unwrap();
    let described = paths.iter().flat_map(|(path, methods)| {
        methods.as_object().unwrap().keys().map(move |method| (path.clone(), method.clone()))
    });
    let routed = ApiCall::ALL.iter().map(|call| (call.path().to_owned(), call.method().to_owned()));
    assert_eq!(described.collect::<BTreeSet<_>>(), routed.collect::<BTreeSet<_>>());
}

fn held(schemas: &mut Schemas, at: &str, call: (&str, &str, &str), body: Option<&str>) -> u16 {
    let (method, route, id) = call;
    let url = format!("http://{at}{}", route.replace("{id}", id));
    let config = ureq::Agent::config_builder().http_status_as_error(false).build();
    let agent = ureq::Agent::new_with_config(config);
    let mut answer = match (method, body) {
        ("get", _) => agent.get(&url).call(),
        ("delete", _) => agent.delete(&url).call(),
        (_, Some(body)) => agent.post(&url).content_type("application/json").send(body),
        (_, None) => agent.post(&url).content_type("text/plain").send("x"),
    }
    .unwrap();
    let status = answer.status().as_u16();
    let reported =
        schemas.description["paths"][route][method]["responses"][status.to_string()].clone();
    assert!(reported.is_object(), "{method} {route} answers {status}, which is not described");
    let text = answer.body_mut().read_to_string().unwrap();
    let Some(content) = reported.get("content") else {
        assert_eq!(text, "");
        return status;
    };
    assert_eq!(answer.headers()["content-type"], "application/json");
    let value: Value = serde_json::from_str(&text).unwrap();
    let schema = content["application/json"]["schema"].clone();
    schemas.check(&value, &schema, route).unwrap();
    status
}

#[test]
fn answers_match_the_openapi_description() {
    let (server, hollow) = serving(None);
    let at = server.address().to_string();
    let mut schemas = Schemas::new();
    let key = Some(SecretText("a2V5".into()));
    let feeds = FedStream { address: "10.0.0.3:40001".parse().unwrap(), stream: 7, key };
    let place = PipelinePlace { fed: true, onward: 3, earlier: 1, feeds: Some(feeds) };
    let request = StreamRequest { pipeline: Some(place), ..request() };
    let body = serde_json::to_string(&request).unwrap();
    let requested = serde_json::to_value(request).unwrap();
    schemas
        .check(&requested, &serde_json::json!({"$ref": "#/components/schemas/StreamRequest"}), "")
        .unwrap();

    for route in ["/v1/catalogue", "/v1/capacity", "/v1/openapi.json"] {
        assert_eq!(held(&mut schemas, &at, ("get", route, ""), None), 200);
    }
    let (streams, one) = ("/v1/streams", "/v1/streams/{id}");
    assert_eq!(held(&mut schemas, &at, ("post", streams, ""), Some(&body)), 201);
    assert_eq!(held(&mut schemas, &at, ("get", streams, ""), None), 200);
    assert_eq!(held(&mut schemas, &at, ("get", one, "1"), None), 200);
    assert_eq!(held(&mut schemas, &at, ("get", one, "7"), None), 404);
    assert_eq!(held(&mut schemas, &at, ("delete", one, "1"), None), 204);
    assert_eq!(held(&mut schemas, &at, ("delete", one, "1"), None), 404);
    assert_eq!(held(&mut schemas, &at, ("post", streams, ""), None), 415);
    assert_eq!(held(&mut schemas, &at, ("post", streams, ""), Some("{}")), 422);
    let long = " ".repeat(70_000);
    assert_eq!(held(&mut schemas, &at, ("post", streams, ""), Some(&long)), 413);
    let (id, what) = (plugin().id, "was removed".to_owned());
    for refused in [
        WorkRefused::NoSuchPlugin(id.clone()),
        WorkRefused::PluginGone { id, what },
        WorkRefused::Overloaded("full; wait".to_owned()),
        WorkRefused::Failed("no".to_owned()),
    ] {
        let status = refused.status();
        *hollow.refuse.lock().unwrap() = Some(refused);
        assert_eq!(held(&mut schemas, &at, ("post", streams, ""), Some(&body)), status);
    }
    // Only with TLS.
    schemas.seen.insert("Stream.salt".to_owned());
    assert_eq!(
        schemas.seen.iter().filter(|seen| !seen.starts_with('/')).cloned().collect::<BTreeSet<_>>(),
        schemas.all()
    );
}

#[test]
fn every_phase_is_described() {
    let description: Value = serde_json::from_str(OPENAPI).unwrap();
    let phases =
        &description["components"]["schemas"]["StreamState"]["properties"]["phase"]["enum"];
    let all = [
        StreamPhase::Starting,
        StreamPhase::Idle,
        StreamPhase::Running,
        StreamPhase::Restarting,
        StreamPhase::Failed,
    ];
    assert_eq!(*phases, serde_json::to_value(all).unwrap());
}
