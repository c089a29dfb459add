use patterns::answer::TaskRecord;
use patterns::answer::UnreadKind;
use patterns::answer::tasks;

fn record(id: &str, kind: &str, description: &str, needs: &[&str]) -> TaskRecord {
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    TaskRecord {
        id: some(id),
        kind: some(kind),
        description: description.to_owned(),
        needs: needs.iter().map(|&need| need.to_owned()).collect(),
    }
}

fn kind(text: &str) -> UnreadKind {
    tasks(text).expect_err(text).kind()
}

#[test]
fn fields_are_read_record_by_record() {
    let plan = "<tasks>\n<task>\n<id>a</id>\n<type>formal</type>\n<description>\nWrite it stiffly.\n\nIn two parts.\n</description>\n</task>\n\
                <task><id>b</id><description>Compare x<y & \"z\".</description><needs>a</needs></task>\n\
                <task><type>casual</type><description>R&amp;D</description><needs>a, b</needs></task>\n</tasks>";
    assert_eq!(
        tasks(plan).unwrap(),
        [
            record("a", "formal", "Write it stiffly.\n\nIn two parts.", &[]),
            record("b", "", "Compare x<y & \"z\".", &["a"]),
            record("", "casual", "R&D", &["a", "b"]),
        ]
    );
}

#[test]
fn attributes_are_fields() {
    let plan = "<task id=\"a\" type='formal'>Write it.</task><task id=b needs=\"a\"><description>Check it.</description></task>";
    assert_eq!(
        tasks(plan).unwrap(),
        [record("a", "formal", "Write it.", &[]), record("b", "", "Check it.", &["a"])]
    );
}

#[test]
fn full_width_tags_have_attributes_too() {
    let plan = "＜task id=1 needs=\"0\"＞写＜/task＞";
    assert_eq!(tasks(plan).unwrap(), [record("1", "", "写", &["0"])]);
}

#[test]
fn text_outside_the_fields_is_the_description() {
    assert_eq!(tasks("<task>Find &lt;b&gt; tags</task>").unwrap(), [record("", "", "Find <b> tags", &[])]);
    assert_eq!(tasks("<task><type>x</type>Write it.</task>").unwrap(), [record("", "x", "Write it.", &[])]);
    let escaped = "<task>Emit &lt;description&gt;x&lt;/description&gt;</task>";
    assert_eq!(tasks(escaped).unwrap(), [record("", "", "Emit <description>x</description>", &[])]);
}

#[test]
fn a_field_named_in_a_description_is_no_field() {
    let plan =
        "<task><type>a</type><description>Fill <type>b</type> and <needs>c</needs>.</description></task>";
    assert_eq!(tasks(plan).unwrap(), [record("", "a", "Fill <type>b</type> and <needs>c</needs>.", &[])]);
}

#[test]
fn a_forgotten_close_tag_moves_no_text_into_another_field() {
    let plan = "<task><type>formal<description>Write it.</description></task>\n<task><type>casual</type><description>Tell it.</task>";
    assert_eq!(
        tasks(plan).unwrap(),
        [record("", "formal", "Write it.", &[]), record("", "casual", "Tell it.", &[])]
    );
    let both = "<task><type>formal\n<description>Write it.</task><task>x</task>";
    assert_eq!(tasks(both).unwrap()[0], record("", "formal", "Write it.", &[]));
}

#[test]
fn needs_are_a_list_however_they_are_written() {
    for list in [
        "a, b",
        "a b",
        "a,b",
        "[\"a\", \"b\"]",
        "a and b",
        "a\nb",
        "- a\n- b",
        "<id>a</id><id>b</id>",
        "#a; #b",
    ] {
        let plan = format!("<task>x<needs>{list}</needs></task>");
        assert_eq!(tasks(&plan).unwrap()[0].needs, ["a", "b"], "{list}");
    }
    assert_eq!(tasks("<task>x<needs>a</needs><needs>b</needs></task>").unwrap()[0].needs, ["a", "b"]);
    for list in ["", "none", "None", "-", "[]", "n/a"] {
        assert!(
            tasks(&format!("<task>x<needs>{list}</needs></task>")).unwrap()[0].needs.is_empty(),
            "{list}"
        );
    }
}

#[test]
fn a_cut_plan_never_passes_as_a_short_one() {
    for plan in [
        "<task>one</task>\n<task>two and",
        "<task>one</task>\n<task><type>a</type><description>tw",
        "<tasks>\n<task>one</task>\n",
        "<task>one</task>\n<tas",
        "<think>I would split it: <task>one</task>",
    ] {
        assert_eq!(kind(plan), UnreadKind::Truncated, "{plan}");
    }
}

#[test]
fn a_plan_without_tasks_is_missing_unless_it_says_so() {
    assert_eq!(kind("1. Research\n2. Write"), UnreadKind::Missing);
    assert_eq!(kind("<tasks>1. Research</tasks>"), UnreadKind::Missing);
    assert_eq!(tasks("<tasks>\n</tasks>").unwrap(), []);
    assert_eq!(tasks("Nothing to do. <tasks/>").unwrap(), []);
}

#[test]
fn a_task_that_says_nothing_is_an_error_that_names_it() {
    let error = tasks("<task>one</task><task><type>a</type></task>").unwrap_err();
    assert_eq!(error.kind(), UnreadKind::Missing);
    assert!(error.to_string().starts_with("task 2: "), "{error}");
    assert_eq!(
        kind("<task><description>a</description><description>b</description></task>"),
        UnreadKind::Ambiguous
    );
}
