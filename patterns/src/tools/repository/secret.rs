//! Files that hold keys and passwords, told by their names.

/// Whether a file or folder of this name is never read or listed. Names are compared as the file systems do that take
/// `.ENV`, `.env.` or `.e\u{200c}nv` for `.env`.
pub(super) fn is_secret(name: &str) -> bool {
    let folded: String = name
        .chars()
        .filter(|c| !is_ignorable(*c))
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .collect();
    // `name::$DATA` and `name:stream` are the same file on NTFS
    let name = folded.split(':').next().unwrap_or_default().trim_end_matches(['.', ' ']);
    let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
    let example = matches!(extension, "example" | "sample" | "template" | "dist");
    match name {
        ".git" | "git~1" | ".ssh" | ".gnupg" | ".aws" | ".azure" | ".kube" | ".docker" => true,
        ".netrc" | "_netrc" | ".npmrc" | ".pypirc" | ".git-credentials" | ".htpasswd" | ".pgpass"
        | ".my.cnf" => true,
        ".env" | ".envrc" => true,
        _ if name.starts_with(".env.") => !example,
        _ if ["id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"].iter().any(|key| name.starts_with(key)) => {
            extension != "pub"
        }
        _ if matches!(stem, "credentials" | "secret" | "secrets" | "service-account" | "service_account") => {
            matches!(extension, "" | "json" | "toml" | "yaml" | "yml" | "ini" | "cfg" | "xml" | "env" | "txt")
        }
        _ if name == "credentials" || name.ends_with("-credentials.json") => true,
        _ => matches!(
            extension,
            "pem"
                | "key"
                | "p12"
                | "pfx"
                | "p8"
                | "jks"
                | "keystore"
                | "kdbx"
                | "ppk"
                | "asc"
                | "gpg"
                | "tfstate"
                | "tfvars"
                | "ovpn"
        ),
    }
}

/// Characters without a shape, which HFS+ leaves out of comparisons.
fn is_ignorable(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::is_secret;

    #[test]
    fn secrets_are_told_by_any_spelling_of_their_name() {
        for name in [
            ".env",
            ".ENV",
            ".env.",
            ".env ",
            ".env.local",
            ".e\u{200c}nv",
            ".env::$DATA",
            "id_rsa",
            "ID_RSA",
            ".\u{17f}sh",
            "server.pem",
            "x.KEY",
            ".git",
            ".Git",
            "credentials",
            "credentials.json",
            "secrets.toml",
            ".npmrc",
            "prod.tfvars",
        ] {
            assert!(is_secret(name), "{name:?}");
        }
    }

    #[test]
    fn ordinary_files_are_not_secrets() {
        for name in [
            ".env.example",
            "env.rs",
            "environment.md",
            ".gitignore",
            ".github",
            "id_rsa.pub",
            "keys.rs",
            "secret.rs",
            "credentials.rs",
            "secrets.md",
            "monkey",
            "Cargo.toml",
        ] {
            assert!(!is_secret(name), "{name:?}");
        }
    }
}
