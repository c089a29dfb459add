//! Prompt chaining with gates: a quarterly report becomes a sorted table, and plain code checks every step.
//!
//! Run it: `cargo run --release --example report`. As a flow file: `examples/flows/report.toml`.
#![allow(clippy::print_stdout)]

use patterns::{Check, Flow, Gated, Result, connect_default, layers};

/// The number before the colon of a line `value: metric`.
fn value(line: &str) -> Option<f64> {
    let (value, metric) = line.split_once(": ")?;
    let number = value.trim().trim_start_matches('$').trim_end_matches('%').replace(',', "");
    (!metric.trim().is_empty()).then(|| number.parse().ok())?
}

fn every_line_has_a_value(text: &str) -> Result<(), String> {
    let bad = text.lines().find(|line| value(line).is_none());
    bad.map_or(Ok(()), |line| Err(format!("\"{line}\" is not a line `value: metric`")))
}

fn the_same_lines_sorted(before: &str, after: &str) -> Result<(), &'static str> {
    let (mut had, mut has): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
    if !has.is_sorted_by(|a, b| value(a) >= value(b)) {
        return Err("the values do not fall from line to line; compare them as numbers, 8 is less than 19");
    }
    had.sort_unstable();
    has.sort_unstable();
    if had == has { Ok(()) } else { Err("the lines must stay as they are, every one of them") }
}

fn one_row_a_line(before: &str, after: &str) -> Result<(), String> {
    let rows = after.lines().filter(|line| line.trim_start().starts_with('|')).count();
    let wanted = before.lines().count() + 2; // the head and its rule
    if rows == wanted { Ok(()) } else { Err(format!("the table has {rows} rows and needs {wanted}")) }
}

#[tokio::main]
async fn main() -> Result<()> {
    let chain = "Copy every current figure of this report, one a line, as `value: metric`. Nothing else."
        .gate("lines with values", every_line_has_a_value)
        .gate("eight figures", |text| text.lines().count() == 8)
        .repair(1)
        .then("Round nothing, convert nothing. Only shorten the metric of each line to three words at most.")
        .gate("lines still have values", every_line_has_a_value)
        .then("Sort these lines by value, the highest first. Change nothing else.")
        .gate_by("sorted, none lost", Check::compare(the_same_lines_sorted).repair(1))
        .then("Write these lines as a Markdown table with the columns Metric and Value.")
        .gate_by("as many rows as lines", Check::compare(one_row_a_line).repair(1));
    println!("{}", chain.shape());

    let llm = layers::standard(connect_default()?.0, layers::Options::default());
    let table = chain.run(&llm, include_str!("data/report.txt")).await;
    match table.as_ref().map_err(|error| error.cause::<Gated>()) {
        Ok(table) => println!("{table}"),
        Err(Some(gated)) => println!("stopped at {}: {gated}", gated.step),
        Err(None) => return table.map(drop),
    }
    Ok(())
}
