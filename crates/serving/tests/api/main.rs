//! Workers are asked by real sockets: what the API is, who may ask, and what nobody gets by with.

mod common;
mod hostile;
mod openapi;
mod plain;
mod trusted;
