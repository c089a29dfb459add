//! The providers against a server of our own that can do everything wrong.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![cfg(feature = "http")]

mod agent;
mod anthropic;
mod captures;
mod connections;
mod faults;
mod openai;
mod secrets;
mod server;
mod streams;
mod told;
