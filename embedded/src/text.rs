//! Between text and tokens: the tokenizer and the chat template that the model's file brings along.

use crate::error::{Error, ErrorKind, Result};
use crate::model::gguf::Gguf;
use candle_core::quantized::gguf_file::Value;
use candle_core::quantized::tokenizer::TokenizerFromGguf as _;
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, UndefinedBehavior, context};
use tokenizers::Tokenizer;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;

/// Who speaks in a [`Message`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Instructions for the whole conversation.
    System,
    /// The one who asks.
    User,
    /// The model.
    Assistant,
}

/// One turn of a conversation. Its text is data: a special token that is written out in it stays plain text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub text: String,
}

impl Message {
    /// Instructions for the whole conversation; at most one, at the beginning.
    pub fn system(text: impl Into<String>) -> Message {
        Message { role: Role::System, text: text.into() }
    }

    /// What the user says.
    pub fn user(text: impl Into<String>) -> Message {
        Message { role: Role::User, text: text.into() }
    }

    /// What the model said earlier.
    pub fn assistant(text: impl Into<String>) -> Message {
        Message { role: Role::Assistant, text: text.into() }
    }
}

/// Names of the tokens that end a turn, in the families of models that use the llama architecture.
const ENDS: [&str; 6] =
    ["<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|endoftext|>", "</s>"];

/// The tokenizer, the chat template and the tokens that end a turn.
pub(crate) struct Text {
    tokenizer: Tokenizer,
    template: Option<Environment<'static>>,
    special: Vec<String>,
    ends: Vec<u32>,
    begin: String,
    end: String,
}

impl Text {
    pub(crate) fn load(file: &mut Gguf) -> Result<Text> {
        let splitting = file.text("tokenizer.ggml.pre").unwrap_or("gpt-2").to_owned();
        // candle knows some ways of splitting text into words, and takes GPT-2's for every other
        match &splitting[..] {
            "qwen2" | "llama3" | "smollm" | "gpt-2" => {}
            "llama-bpe" => {
                let name = Value::String("llama3".to_owned());
                file.content.metadata.insert("tokenizer.ggml.pre".to_owned(), name);
            }
            other => {
                return Err(
                    file.bad(format!("its way of splitting words, `{other}`, is unknown to this engine"))
                );
            }
        }
        let mut tokenizer = Tokenizer::from_gguf(&file.content).map_err(|error| file.bad(error))?;
        let bytes = ByteLevel::new(false, true, true);
        match &splitting[..] {
            "smollm" => {
                let steps = vec![Digits::new(true).into(), bytes.into()];
                tokenizer.with_pre_tokenizer(Some(Sequence::new(steps)));
            }
            "gpt-2" => {
                tokenizer.with_pre_tokenizer(Some(bytes));
            }
            _ => {}
        }
        let named = |key: &str| {
            let id = u32::try_from(file.whole(key)?).ok()?;
            Some((id, tokenizer.id_to_token(id)?))
        };
        let begin = named("tokenizer.ggml.bos_token_id").map_or_else(String::new, |(_, name)| name);
        let end = named("tokenizer.ggml.eos_token_id").map_or_else(String::new, |(_, name)| name);
        let keys =
            ["eos_token_id", "eot_token_id", "eom_token_id"].map(|key| format!("tokenizer.ggml.{key}"));
        let mut ends: Vec<u32> = keys.iter().filter_map(|key| Some(named(key)?.0)).collect();
        ends.extend(ENDS.iter().filter_map(|name| tokenizer.token_to_id(name)));
        let special = tokenizer.get_added_vocabulary().get_vocab().keys().cloned().collect();
        let template = file.text("tokenizer.chat_template").map(|source| environment(source.to_owned()));
        let template = template
            .transpose()
            .map_err(|error| file.bad(format!("its chat template is broken: {error}")))?;
        Ok(Text { tokenizer, template, special, ends, begin, end })
    }

    /// Whether this token ends a turn.
    pub(crate) fn is_end(&self, token: u32) -> bool {
        self.ends.contains(&token)
    }

    /// The tokens of a conversation, up to where the model's answer begins.
    pub(crate) fn chat(&self, messages: &[Message]) -> Result<Vec<u32>> {
        let Some(template) = &self.template else {
            return Err(Error::new(
                ErrorKind::BadFile,
                "the model's file has no chat template, so it cannot chat",
            ));
        };
        let marker = marker(|marker| messages.iter().any(|message| message.text.contains(marker)))?;
        let turns: Vec<_> = messages
            .iter()
            .map(|Message { role, text }| {
                let role = match role {
                    Role::System => "system",
                    Role::User => "user",
                    Role::Assistant => "assistant",
                };
                context! { role, content => self.defuse(text, marker) }
            })
            .collect();
        let variables = context! {
            messages => turns, add_generation_prompt => true, bos_token => self.begin.clone(), eos_token => self.end.clone(),
        };
        let rendered = template
            .get_template("chat")
            .and_then(|template| template.render(variables))
            .map_err(|error| {
                Error::bad_request(format!("the model's chat template refuses the messages: {error}"))
            })?;
        self.encode(&rendered, marker)
    }

    /// The tokens of a plain text, in which nothing is special.
    pub(crate) fn plain(&self, text: &str) -> Result<Vec<u32>> {
        let marker = marker(|marker| text.contains(marker))?;
        self.encode(&self.defuse(text, marker), marker)
    }

    /// The text with a marker within whatever would be read as a special token.
    fn defuse(&self, text: &str, marker: char) -> String {
        let mut safe = text.to_owned();
        for name in &self.special {
            if safe.contains(name) {
                let mut broken = name.clone();
                broken.insert(name.chars().next().map_or(0, char::len_utf8), marker);
                safe = safe.replace(name, &broken);
            }
        }
        safe
    }

    /// Tokens, special ones included. A marker splits the text and is nothing itself.
    fn encode(&self, text: &str, marker: char) -> Result<Vec<u32>> {
        let mut tokens = Vec::new();
        for piece in text.split(marker) {
            let encoding = self.tokenizer.encode_fast(piece, false);
            let encoding = encoding.map_err(|error| {
                Error::bad_request(format!("the text cannot be split into tokens: {error}"))
            })?;
            tokens.extend_from_slice(encoding.get_ids());
        }
        Ok(tokens)
    }
}

/// A character that does not occur yet.
fn marker(occurs: impl Fn(char) -> bool) -> Result<char> {
    ('\u{FDD0}'..='\u{FDEF}')
        .find(|marker| !occurs(*marker))
        .ok_or_else(|| Error::bad_request("the text holds all of Unicode's noncharacters; take some out"))
}

fn environment(source: String) -> std::result::Result<Environment<'static>, minijinja::Error> {
    let mut environment = Environment::new();
    // the templates are written for Python
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.add_function(
        "raise_exception",
        |why: String| -> std::result::Result<String, minijinja::Error> {
            Err(minijinja::Error::new(minijinja::ErrorKind::InvalidOperation, why))
        },
    );
    environment.add_template_owned("chat", source)?;
    Ok(environment)
}

/// Tokens that become text, a piece at a time; bytes of an unfinished character are held back.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    tokens: Vec<u32>,
    prefix: String,
    prefix_tokens: usize,
}

impl Pieces {
    /// The text that this token completes.
    pub(crate) fn push(&mut self, text: &Text, token: u32) -> String {
        let step = tokenizers::step_decode_stream(
            &text.tokenizer,
            vec![token],
            true,
            &mut self.tokens,
            &mut self.prefix,
            &mut self.prefix_tokens,
        );
        step.ok().flatten().unwrap_or_default()
    }
}
