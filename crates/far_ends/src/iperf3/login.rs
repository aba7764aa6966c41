//! User name and password, as a server with `--rsa-private-key-path` wants them: a text with the time of day, encrypted
//! with the server's public key (PKCS#1 v1.5, or since 3.17 OAEP with SHA-1; RFC 8017, 7), in base64.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs};

use deadheat_base::error::{Error, Result};
use deadheat_datapath::transport::far_end::FarEndVariables;

/// Environment variables with the name, the password or a file that has it, the server's public key as a PEM file, and the
/// padding. A command line would show a password to every user of the host.
const USER: &str = "DEADHEAT_IPERF3_USER";
const PASSWORD: &str = "DEADHEAT_IPERF3_PASSWORD";
const PASSWORD_FILE: &str = "DEADHEAT_IPERF3_PASSWORD_FILE";
const KEY: &str = "DEADHEAT_IPERF3_PUBLIC_KEY";
const PADDING: &str = "DEADHEAT_IPERF3_PADDING";

/// All of them.
pub(super) const VARIABLES: FarEndVariables = FarEndVariables {
    names: &[USER, PASSWORD, PASSWORD_FILE, KEY, PADDING],
    purpose: "The login at an iperf3 server that asks for one, with --to iperf3://HOST.",
};

/// Longest password or key that is read from a file.
const LONGEST: u64 = 64 << 10;

/// Proof of a user for one test.
pub(super) struct Login {
    pub(super) user: String,
    /// Token in the parameters of the test.
    pub(super) token: String,
}

impl Login {
    /// Creates the proof from the environment; `None` if no user is named there.
    ///
    /// # Errors
    /// [`Error::Usage`] with the variable that is missing or wrong; [`Error::Setup`] if a file cannot be read.
    pub(super) fn of_environment() -> Result<Option<Login>> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Login::of(&|name| env::var(name).ok().filter(|value| !value.is_empty()), now)
    }

    fn of(variable: &dyn Fn(&str) -> Option<String>, now_s: u64) -> Result<Option<Login>> {
        let Some(user) = variable(USER) else { return Ok(None) };
        let missing = |name: &str, what: &str| {
            Error::usage(format!("{USER} is set, and {name} is not: set it to {what}"))
        };
        let password = match (variable(PASSWORD), variable(PASSWORD_FILE)) {
            (Some(password), _) => password,
            (None, Some(file)) => read(&file)?.lines().next().unwrap_or_default().to_owned(),
            (None, None) => return Err(missing(PASSWORD, "the password")),
        };
        for (name, value) in [(USER, &user), (PASSWORD, &password)] {
            // The server reads each up to the first white space, whatever the user typed.
            if value.is_empty() || value.contains(char::is_whitespace) {
                return Err(Error::usage(format!(
                    "{name} is empty or has white space, with which iperf3 lets nobody in"
                )));
            }
        }
        let key = variable(KEY).ok_or_else(|| {
            missing(KEY, "the file with the server's public key, as for --rsa-public-key-path")
        })?;
        let is_oaep = match variable(PADDING).as_deref() {
            None | Some("oaep") => true,
            Some("pkcs1") => false,
            Some(other) => {
                return Err(deadheat_base::error::unknown(PADDING, other, &["oaep", "pkcs1"]));
            }
        };
        let text = format!("user: {user}\npwd:  {password}\nts:   {now_s}");
        let token = encrypted(&text, &read(&key)?, is_oaep)
            .map_err(|what| Error::usage(format!("{KEY}={key}: {what}")))?;
        Ok(Some(Login { user, token }))
    }
}

fn read(file: &str) -> Result<String> {
    use std::io::Read;
    let failed = |e| Error::setup(format!("read {file}"), e);
    let mut text = String::new();
    let opened = fs::File::open(Path::new(file)).map_err(failed)?;
    opened.take(LONGEST).read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

/// Encrypts `text` with a public key in PEM, and returns it in base64.
#[cfg(feature = "iperf3-login")]
fn encrypted(text: &str, pem: &str, is_oaep: bool) -> Result<String, String> {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use rsa::{PublicKey, pkcs8::DecodePublicKey};
    use sha1::Sha1;

    let key = PublicKey::from_public_key_pem(pem.trim()).map_err(|e| {
        format!("it has no RSA public key in PEM, as `openssl rsa -pubout` writes it ({e})")
    })?;
    let sealed = if is_oaep {
        key.oaep_encrypt::<Sha1>(text.as_bytes())
    } else {
        key.pkcs1v15_encrypt(text.as_bytes())
    };
    let sealed = sealed.map_err(|e| {
        format!("user name and password cannot be encrypted with it ({e}); a key of 2048 bits has room for 190 bytes")
    })?;
    Ok(STANDARD.encode(sealed))
}

#[cfg(not(feature = "iperf3-login"))]
fn encrypted(_: &str, _: &str, _: bool) -> Result<String, String> {
    let there = deadheat_datapath::transport::optional::in_packages("iperf3-login");
    Err(format!("this build leaves out the encryption with it; {there}"))
}

/// Returns the error of a server at `to` that did not let `user` in.
pub(super) fn refused(to: SocketAddr, user: Option<&str>) -> Error {
    Error::usage(match user {
        None => format!(
            "iperf3 at {to} wants a user name and a password; set {USER}, {PASSWORD} (or {PASSWORD_FILE}), and {KEY} to the \
             file with its public key"
        ),
        Some(user) => format!(
            "iperf3 at {to} does not let {} in: a wrong name, password or key; or its clock and this one's differ by more \
             than its --time-skew-threshold, 10 s; or it is older than 3.17 or runs with --use-pkcs1-padding: then set \
             {PADDING}=pkcs1",
            deadheat_base::foreign::short(user)
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(set: &[(&str, &str)]) -> Result<Option<Login>, String> {
        let variable =
            |name: &str| set.iter().find(|(own, _)| *own == name).map(|(_, v)| (*v).to_owned());
        Login::of(&variable, 1_700_000_000).map_err(|e| e.to_string())
    }

    /// The keys are made for this test: `openssl genrsa 2048`, `openssl rsa -pubout`.
    #[cfg(feature = "iperf3-login")]
    #[test]
    fn a_token_is_the_text_that_iperf3_reads_encrypted_with_either_padding() {
        use base64::{Engine, engine::general_purpose::STANDARD};
        use rsa::{PrivateKey, pkcs8::DecodePrivateKey};
        use sha1::Sha1;

        const PRIVATE: &str = include_str!("test-keys/private.pem");
        const PUBLIC: &str = include_str!("test-keys/public.pem");

        let dir = tempfile::tempdir().unwrap();
        let (key, secret) = (dir.path().join("public.pem"), dir.path().join("secret"));
        fs::write(&key, PUBLIC).unwrap();
        fs::write(&secret, "open-sesame\n").unwrap();
        let (key, secret) = (key.to_str().unwrap(), secret.to_str().unwrap());
        let private = PrivateKey::from_pkcs8_pem(PRIVATE).unwrap();
        let text = b"user: ann\npwd:  open-sesame\nts:   1700000000";
        let all = [(USER, "ann"), (KEY, key), (PASSWORD, "open-sesame")];
        let oaep = login(&all).unwrap().unwrap();
        assert_eq!(oaep.user, "ann");
        let sealed = STANDARD.decode(&oaep.token).unwrap();
        assert_eq!(private.oaep_decrypt::<Sha1>(&sealed).unwrap(), text);
        let set = [(USER, "ann"), (KEY, key), (PASSWORD_FILE, secret), (PADDING, "pkcs1")];
        let sealed = STANDARD.decode(login(&set).unwrap().unwrap().token).unwrap();
        assert_eq!(private.pkcs1v15_decrypt(&sealed).unwrap(), text);
    }

    #[test]
    fn settings_that_are_missing_or_wrong_are_named() {
        const NO_KEY: &str = if cfg!(feature = "iperf3-login") {
            "no RSA public key in PEM"
        } else {
            "this build leaves out the encryption"
        };

        assert!(login(&[(PASSWORD, "x"), (KEY, "x")]).unwrap().is_none());
        let dir = tempfile::tempdir().unwrap();
        let wrong = dir.path().join("wrong.pem");
        fs::write(&wrong, "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n").unwrap();
        let wrong = wrong.to_str().unwrap();
        for (set, said) in [
            (&[(USER, "a")][..], "DEADHEAT_IPERF3_PASSWORD is not"),
            (&[(USER, "a"), (PASSWORD, "b")], "DEADHEAT_IPERF3_PUBLIC_KEY is not"),
            (&[(USER, "a b"), (PASSWORD, "b"), (KEY, wrong)], "USER is empty or has white space"),
            (&[(USER, "a"), (PASSWORD, "b"), (KEY, "/none/key")], "read /none/key"),
            (&[(USER, "a"), (PASSWORD, "b"), (KEY, wrong)], NO_KEY),
            (&[(USER, "a"), (PASSWORD, "b"), (KEY, wrong), (PADDING, "oep")], "`oaep`"),
        ] {
            let error = login(set).err().unwrap();
            assert!(error.contains(said), "{said}: {error}");
        }
    }
}
