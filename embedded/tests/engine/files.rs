use crate::tiny::Tiny;
use candle_core::quantized::GgmlDType;
use futures::executor::block_on;
use patterns_embedded::{Engine, Error, ErrorKind, Message, Options};
use std::fs;

fn refused(tiny: &Tiny) -> Error {
    tiny.load().map(|_| ()).expect_err("refused")
}

#[test]
fn every_format_and_both_kinds_of_output_answer() {
    let formats =
        [GgmlDType::F32, GgmlDType::F16, GgmlDType::Q8_0, GgmlDType::Q4_0, GgmlDType::Q4_1, GgmlDType::Q5_1];
    for format in formats {
        for own_output in [false, true] {
            let engine = Tiny { format, own_output, ..Tiny::default() }.engine();
            let options = Options { max_tokens: 8, ..Options::default() };
            let answer =
                block_on(engine.generate(&[Message::user("ab c")], &options, |_| ())).expect("an answer");
            assert!((1..=8).contains(&answer.output_tokens), "{format:?} {answer:?}");
            assert_eq!(answer.prompt_tokens, 7);
        }
    }
}

#[test]
fn another_architecture_is_named() {
    let error = refused(&Tiny { architecture: "mamba", ..Tiny::default() });
    assert_eq!(error.kind(), ErrorKind::BadFile);
    assert!(error.to_string().contains("mamba") && error.to_string().contains("llama"), "{error}");
}

#[test]
fn a_missing_tensor_is_named() {
    let error = refused(&Tiny { without: "blk.1.ffn_up", ..Tiny::default() });
    assert_eq!(error.kind(), ErrorKind::BadFile);
    assert!(error.to_string().contains("blk.1.ffn_up.weight"), "{error}");
}

#[test]
fn an_unknown_tokenizer_is_refused_instead_of_guessed() {
    let error = refused(&Tiny { splitting: "klingon", ..Tiny::default() });
    assert_eq!(error.kind(), ErrorKind::BadFile);
    assert!(error.to_string().contains("klingon"), "{error}");
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = Tiny::default().write(folder.path());
    let whole = fs::read(&path).expect("readable");
    assert!(Engine::load(&path).is_ok());
    for cut in (0..whole.len()).step_by(whole.len() / 40) {
        fs::write(&path, &whole[..cut]).expect("writable");
        let error = Engine::load(&path).map(|_| ()).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::BadFile, "{error}");
        assert!(error.to_string().contains("tiny.gguf"), "{error}");
    }
}

#[test]
fn a_file_that_is_not_there_is_missing_weights() {
    let error = block_on(Engine::open("/no/such/model.gguf")).map(|_| ()).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::MissingWeights);
    assert!(error.to_string().contains("/no/such/model.gguf"), "{error}");
}
