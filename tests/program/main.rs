//! What the program promises, from outside: arguments in, standard output, standard error and exit code out.

mod agent;
mod examples;
mod hand;
mod map;
mod run;
mod runs;
mod usage;
mod watch;
