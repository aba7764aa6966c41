//! A certificate of the user's, over every transport that encrypts.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use deadheat::time::Nanos;
use deadheat::transport::handover::ConnectionSource;
use deadheat::transport::hello::Hello;
use deadheat::transport::{Address, Contender, Place};
use rcgen::{CertificateParams, Issuer, KeyPair};
use tempfile::TempDir;

use crate::pem::pem;
use deadheat_conformance::Subjects;
use deadheat_conformance::rig::{LONG, RIGHT, connect, dial, listen};

/// A certificate with an ECDSA key, and the one that vouches for it.
struct Chain {
    folder: TempDir,
    certificates: String,
    key: String,
}

impl Chain {
    fn new() -> Chain {
        let params = |name: &str| CertificateParams::new([name.to_owned()]).unwrap();
        let (issuer_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let own = params("issuer.example").self_signed(&issuer_key).unwrap();
        let issuer = Issuer::new(params("issuer.example"), issuer_key);
        let leaf = params("server.example").signed_by(&key, &issuer).unwrap();
        Chain {
            folder: tempfile::tempdir().unwrap(),
            certificates: pem("CERTIFICATE", leaf.der()) + &pem("CERTIFICATE", own.der()),
            key: pem("PRIVATE KEY", &key.serialize_der()),
        }
    }

    fn write(&self, name: &str, parts: &[&str]) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, parts.concat()).unwrap();
        path
    }
}

/// Contenders that encrypt with a certificate, as typed without and with this one, at one of their addresses.
fn encrypted(file: &Path) -> Vec<(Contender, Contender, Address)> {
    let keeps = |(contender, at): (Contender, Address)| {
        let info = contender.transport.info();
        info.keys.iter().find(|key| key.name == "certificate")?;
        let typed = format!("{}:certificate={}", info.id, file.display());
        Some((contender, Contender::parse(&typed).unwrap(), at))
    };
    Subjects::all().everyone().into_iter().filter_map(keeps).collect()
}

#[test]
fn it_is_shown_by_the_far_end_and_the_near_end_takes_no_other() {
    let chain = Chain::new();
    let file = chain.write("own.pem", &[&chain.certificates, &chain.key]);
    for (usual, own, at) in encrypted(&file) {
        own.check().unwrap();
        let mut ends = connect(&own, &at);
        assert_eq!(ends.echo(b"with a certificate of my own"), b"with a certificate of my own");
        let told = ends.near.effective();
        assert_eq!(told.get("certificate"), Some(&file.display().to_string()), "{own:?}");

        let mut listener = listen(&usual, &at, ConnectionSource::Own).unwrap();
        let to = listener.endpoint();
        thread::scope(|scope| {
            scope.spawn(move || listener.accept(Nanos::from_secs(1)).is_ok());
            let refused = dial(&own, &to, Hello { token: RIGHT, flow: 0 }, LONG);
            assert!(refused.is_err(), "{own:?} takes the trial's certificate");
        });
    }
}

#[test]
fn a_file_that_is_none_is_refused_with_what_it_lacks() {
    let chain = Chain::new();
    let other = Chain::new();
    let say = |path: &Path, place| {
        let typed = format!("tls:certificate={}", path.display());
        let why = Contender::parse(&typed).unwrap().check_at(place).unwrap_err().to_string();
        assert!(why.contains(&path.display().to_string()), "{why}");
        why
    };
    let whole = chain.write("whole.pem", &[&chain.key, &chain.certificates]);
    let remote = say(&whole, Place::Remote);
    assert!(remote.contains("a server reads no file"), "{remote}");
    let none = say(Path::new("/no/such.pem"), Place::Loopback);
    assert!(none.contains("No such file"), "{none}");
    let keyless = say(&chain.write("keyless.pem", &[&chain.certificates]), Place::Loopback);
    assert!(keyless.contains("there is no PRIVATE KEY in it"), "{keyless}");
    let bare = say(&chain.write("bare.pem", &[&chain.key]), Place::Emulated);
    assert!(bare.contains("there is no CERTIFICATE in it"), "{bare}");
    let mixed = say(&chain.write("mixed.pem", &[&chain.certificates, &other.key]), Place::Loopback);
    assert!(mixed.to_lowercase().contains("key"), "{mixed}");
}
