//! What the readers of `patterns::answer` promise, shown on a corpus of messy replies.

mod cases;
mod corpus;
