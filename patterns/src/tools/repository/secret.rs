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
    // a copy that an editor or a person keeps beside it
    let copied = name.strip_suffix('~').or_else(|| {
        let (name, suffix) = name.rsplit_once('.')?;
        COPIES.contains(&suffix).then_some(name)
    });
    if let Some(original) = copied.filter(|original| !original.is_empty()) {
        return is_secret(original) || original.strip_prefix('.').is_some_and(is_secret);
    }
    let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
    let example = matches!(extension, "example" | "sample" | "template" | "dist" | "md");
    let first = name.split('.').next().unwrap_or_default();
    let data = DATA.contains(&extension);
    let key = ["id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"].iter().any(|key| name.starts_with(key));
    NAMES.contains(&name)
        || name.strip_prefix(".env").is_some_and(|rest| !example && !rest.starts_with(char::is_alphanumeric))
        || (extension == "env" && !matches!(stem, "example" | "sample" | "template"))
        || (key && extension != "pub")
        || (data && ["secret", "secrets"].contains(&first))
        || (data && ["credential", "credentials"].iter().any(|word| stem.ends_with(word)))
        || (data && !extension.is_empty() && SERVICES.iter().any(|word| stem.contains(word)))
        || KEYS.contains(&extension)
}

/// Files and folders of version control, of shells, and of programs that log in somewhere.
const NAMES: [&str; 30] = [
    ".git",
    "git~1",
    ".hg",
    ".svn",
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".dockercfg",
    ".password-store",
    ".netrc",
    "_netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".htpasswd",
    ".pgpass",
    ".my.cnf",
    ".mylogin.cnf",
    ".env",
    ".envrc",
    ".vault-token",
    ".terraformrc",
    ".s3cfg",
    ".boto",
    ".bash_history",
    ".zsh_history",
    "rootkey.csv",
];
/// Endings of what is data; the same name with another ending is code or text about it.
const DATA: [&str; 11] = ["", "json", "toml", "yaml", "yml", "ini", "cfg", "xml", "env", "txt", "csv"];
const COPIES: [&str; 9] = ["bak", "backup", "old", "orig", "save", "swp", "swo", "tmp", "copy"];
const SERVICES: [&str; 5] =
    ["service-account", "service_account", "serviceaccount", "client_secret", "client-secret"];
const KEYS: [&str; 19] = [
    "pem", "key", "p12", "pfx", "p8", "pkcs12", "jks", "jceks", "keystore", "kdb", "kdbx", "ppk", "asc",
    "gpg", "tfstate", "tfvars", "ovpn", "agekey", "keytab",
];

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
            "prod.env",
            ".env-local",
            ".env~",
            ".env.swp",
            "server.key.bak",
            ".id_rsa.swp",
            "terraform.tfstate.backup",
            "secrets.prod.yaml",
            "application_default_credentials.json",
            "aws_credentials",
            "my-service-account-key.json",
            "client_secret_12.apps.googleusercontent.com.json",
            ".git-credentials",
            ".netrc",
            ".aws",
            ".vault-token",
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
            "example.env",
            ".environment",
            ".env.md",
            "secret.rs.orig",
            "notes~",
            "~",
            ".bak",
            "service_account.py",
            "credential_store.go",
        ] {
            assert!(!is_secret(name), "{name:?}");
        }
    }
}
