//! What the readers of `patterns::answer` promise, shown on a corpus of messy replies.

mod cases;
mod corpus;
mod errors;
mod linear;
mod metamorphic;
mod properties;
mod scores;
mod streams;
mod tasks;
mod writing;
