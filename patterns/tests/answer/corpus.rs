use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

use crate::cases;
use crate::cases::Case;

#[derive(Default)]
struct Row {
    right: usize,
    clear: usize,
    same: usize,
    debatable: usize,
}

fn check(cases: &[Case]) {
    let mut table: BTreeMap<(&str, &str), Row> = BTreeMap::new();
    let mut wrong = String::new();
    let mut choices = String::new();
    for case in cases {
        let read = case.read(&case.reply());
        let right = read == case.expected;
        let row = table.entry((&case.op, &case.kind)).or_default();
        let seen = short(&read);
        if case.debatable {
            row.debatable += 1;
            row.same += usize::from(right);
            let same = if right { "as suggested" } else { "the other way" };
            writeln!(choices, "  {:<24} {same}: {seen}\n{:27}{}", case.id, "", case.why).unwrap();
        } else {
            row.clear += 1;
            row.right += usize::from(right);
            if !right {
                let expected = short(&case.expected);
                writeln!(wrong, "  {} ({}): expected {expected}, read {seen}", case.id, case.op).unwrap();
            }
        }
    }
    println!("{:<8} {:<22} {:>9} {:>11}", "op", "kind", "clear", "debatable");
    for ((op, kind), row) in &table {
        let debatable = format!("{}/{}", row.same, row.debatable);
        println!("{op:<8} {kind:<22} {:>4}/{:<4} {debatable:>11}", row.right, row.clear);
    }
    println!("\ndebatable cases:\n{choices}");
    assert!(wrong.is_empty(), "clear cases read wrongly:\n{wrong}");
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(100) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[test]
fn every_clear_case_of_the_corpus_is_read_rightly() {
    check(&cases::load(include_str!("../data/tags.jsonl")));
}

#[test]
fn every_further_case_is_read_rightly() {
    check(&cases::load(include_str!("../data/tags_more.jsonl")));
}
