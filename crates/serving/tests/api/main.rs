#![expect(clippy::unwrap_used, reason = "a test whose worker fails it is over")]

mod attacks;
mod beyond;
mod caller;
mod common;
mod curl;
mod flights;
mod hostile;
mod news;
mod openapi;
mod owners;
mod plain;
mod trusted;
mod versions;
