//! Header of an answer, as far as a race needs it.

use deadheat_base::foreign;

/// Longest value that is stored, in bytes.
const LONGEST: usize = 1_024;

/// Header of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Head {
    pub(super) status: u16,
    /// Length of the body that it announces.
    pub(super) length: Option<u64>,
    /// URL that it points to.
    pub(super) location: Option<String>,
    /// Services that it announces for the same content (RFC 7838).
    pub(super) alt_svc: Option<String>,
}

impl Head {
    /// Takes a field, with its name in lower case.
    ///
    /// # Errors
    /// The violation, as a sentence.
    pub(super) fn field(&mut self, name: &[u8], value: &[u8]) -> Result<(), String> {
        match name {
            b":status" => {
                let digits = value.len() == 3 && value.iter().all(u8::is_ascii_digit);
                let status = text(value).parse().ok().filter(|_| digits);
                let status = status.ok_or_else(|| format!("its status is {:?}", text(value)))?;
                if self.status != 0 {
                    return Err("its header has two statuses".to_owned());
                }
                self.status = status;
            }
            b"content-length" => {
                let length = text(value).trim().parse::<u64>();
                let length =
                    length.map_err(|_| format!("its content-length is {:?}", text(value)))?;
                if self.length.is_some_and(|other| other != length) {
                    return Err("its header has two content-lengths".to_owned());
                }
                self.length = Some(length);
            }
            b"location" => self.location = Some(text(value)),
            b"alt-svc" => {
                let more = text(value);
                let all = self
                    .alt_svc
                    .take()
                    .map_or_else(|| more.clone(), |one| format!("{one}, {more}"));
                self.alt_svc = Some(foreign::short(&all));
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks that it has a status.
    ///
    /// # Errors
    /// The violation, as a sentence.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.status < 100 { Err("its header has no status".to_owned()) } else { Ok(()) }
    }

    /// Returns true for the header of an interim answer, which another one follows (RFC 9110, 15.2).
    pub(super) fn is_interim(&self) -> bool {
        (100..200).contains(&self.status)
    }

    /// Returns the reason why the answer is no document; `None` if it is one.
    pub(super) fn refusal(&self) -> Option<String> {
        let status = self.status;
        let advice = match (status, &self.location) {
            (200 | 201 | 203, _) => return None,
            (300..=399, Some(location)) => format!(", to {location}; race that URL"),
            (204..=206, _) => ", which has no whole document; race a URL that has one".to_owned(),
            (401 | 403, _) => "; race a URL that everybody may read".to_owned(),
            (404 | 410, _) => ": there is no such document; check the path".to_owned(),
            (425, _) => ": it takes no early data; leave resume=0rtt out".to_owned(),
            (429, _) => {
                ": it counts these as too many requests; ask for fewer, or ask its operator"
                    .to_owned()
            }
            (500..=599, _) => ": it has a fault of its own".to_owned(),
            _ => String::new(),
        };
        Some(format!("it is answered with the status {status}{advice}"))
    }
}

/// Returns text of a stranger, without control characters and not too long.
fn text(value: &[u8]) -> String {
    let value = &value[..value.len().min(LONGEST)];
    foreign::short(&String::from_utf8_lossy(value))
}
