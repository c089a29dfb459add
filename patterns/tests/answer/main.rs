//! What the readers of `patterns::answer` promise, shown on a corpus of messy replies.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]
#![expect(clippy::print_stdout, reason = "the tests print what they covered")]

mod cases;
mod corpus;
mod errors;
mod metamorphic;
mod properties;
mod scores;
mod streams;
mod tasks;
mod writing;
