//! What a call is known by.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use siphasher::sip128::{Hasher128, SipHasher13};

use crate::error::{Error, ErrorKind, Result};
use crate::llm::{Llm, Request};
use crate::path::Path;

/// A place in the flow, and the hash of what is done there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) path: Path,
    pub(super) hash: Fingerprint,
}

impl Key {
    /// Of a call: the whole request, and the model that would answer it.
    pub(super) fn of_call(seed: Seed, llm: &dyn Llm, request: &Request) -> Result<Self> {
        let mut hash = seed.hasher();
        hash.0.write(llm.model(request).unwrap_or_default().as_bytes());
        hash.0.write_u8(0);
        serde_json::to_writer(&mut hash, request).map_err(|error| {
            Error::new(ErrorKind::InvalidRequest, format!("the request cannot be written as JSON: {error}"))
                .at(&request.path)
        })?;
        Ok(Self { path: request.path.clone(), hash: hash.finish() })
    }

    /// Of something with an effect.
    pub(super) fn of_effect(seed: Seed, path: &Path, what: &str) -> Self {
        let mut hash = seed.hasher();
        hash.0.write(what.as_bytes());
        Self { path: path.clone(), hash: hash.finish() }
    }
}

/// What the hashes of a journal are keyed by.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Seed(#[serde(with = "digits")] u128);

impl Seed {
    /// From the random numbers of the operating system, which the standard library takes for its maps.
    pub(super) fn random() -> Self {
        let random = || u128::from(RandomState::new().build_hasher().finish());
        Self(random() << 64 | random())
    }

    fn hasher(self) -> Digest {
        Digest(SipHasher13::new_with_key(&self.0.to_le_bytes()))
    }
}

struct Digest(SipHasher13);

impl Digest {
    fn finish(&self) -> Fingerprint {
        Fingerprint(self.0.finish128().as_u128())
    }
}

impl io::Write for Digest {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The hash of a request or an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Fingerprint(#[serde(with = "digits")] u128);

/// 128 bits as 32 hexadecimal digits.
mod digits {
    use super::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(number: &u128, to: S) -> Result<S::Ok, S::Error> {
        let bytes = number.to_be_bytes();
        let digits = std::array::from_fn::<u8, 32, _>(|n| {
            let digit = if n % 2 == 0 { bytes[n / 2] >> 4 } else { bytes[n / 2] & 15 };
            b"0123456789abcdef"[usize::from(digit)]
        });
        to.serialize_str(std::str::from_utf8(&digits).map_err(serde::ser::Error::custom)?)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u128, D::Error> {
        let digits = <&str>::deserialize(from)?;
        let number = u128::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 32);
        number.ok_or_else(|| serde::de::Error::custom("not 32 hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_read_as_it_was_written() {
        for number in [0, 1, 0xabc, u128::MAX, 0x0123_4567_89ab_cdef_0011_2233_4455_6677] {
            let written = serde_json::to_string(&Fingerprint(number)).unwrap();
            assert_eq!(written, format!("\"{number:032x}\""));
            assert_eq!(serde_json::from_str::<Fingerprint>(&written).unwrap(), Fingerprint(number));
        }
        for wrong in ["\"\"", "\"abc\"", "\"g0000000000000000000000000000000\"", "7"] {
            assert!(serde_json::from_str::<Fingerprint>(wrong).is_err(), "{wrong}");
        }
    }
}
