//! The providers against a server of our own that can do everything wrong.
#![cfg(feature = "http")]

mod anthropic;
mod faults;
mod secrets;
mod server;
mod streams;
