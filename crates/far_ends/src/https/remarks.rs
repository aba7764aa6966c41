//! Remarks on a race at a site: a document that is not always the same, and HTTP/3 that is not announced.

use std::collections::BTreeMap;

use super::document::{ALT_SVC, DOCUMENT, HTTP};
use deadheat_contract::recorded::{FarEndRemark, SeenTrial};
use deadheat_datapath::transport::identity;

/// Most documents that are named.
const MOST_NAMED: usize = 3;

/// Returns the remarks on the trials of a race.
pub(super) fn of(seen: &[SeenTrial<'_>]) -> Vec<FarEndRemark> {
    documents(seen).into_iter().chain(announcement(seen)).chain(early_data(seen)).collect()
}

/// Returns a remark if visits that should send early data had no ticket for it.
fn early_data(seen: &[SeenTrial<'_>]) -> Option<FarEndRemark> {
    let without = seen.iter().filter(|trial| {
        trial.effective.get("resume").is_some_and(|resume| resume == identity::NO_EARLY_DATA)
    });
    let without: Vec<&str> = without.map(|trial| trial.label).collect();
    let first = without.first()?;
    Some(FarEndRemark {
        message: format!(
            "the last visit of {} trials of {first} sent no early data: the site gave no ticket for it, or not in time",
            without.len()
        ),
        advice: "a ticket arrives about a round trip after an answer to early data; connect:pause=100ms leaves time for it",
    })
}

/// Returns a remark if the document was not the same in all trials.
fn documents(seen: &[SeenTrial<'_>]) -> Option<FarEndRemark> {
    let mut found: BTreeMap<&str, (usize, Vec<&str>)> = BTreeMap::new();
    for trial in seen {
        let Some(document) = trial.effective.get(DOCUMENT) else { continue };
        let (times, labels) = found.entry(document).or_default();
        *times += 1;
        if !labels.contains(&trial.label) {
            labels.push(trial.label);
        }
    }
    let varies = found.keys().any(|document| document.contains(" to "));
    if found.len() < 2 && !varies {
        return None;
    }
    let named = found.iter().take(MOST_NAMED).map(|(document, (times, labels))| {
        format!("{document} ({times} times, {})", labels.join(", "))
    });
    let named: Vec<String> = named.collect();
    let more = found.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    Some(FarEndRemark {
        message: format!(
            "the document is not the same in all trials, last seen in each as: {}{more}",
            named.join("; ")
        ),
        advice: "what differs in length differs in time; race a document that stays as it is, such as a picture or a script",
    })
}

/// Returns a remark if the site does not announce HTTP/3 to those who come over TLS.
fn announcement(seen: &[SeenTrial<'_>]) -> Option<FarEndRemark> {
    let over_tls = seen
        .iter()
        .filter(|trial| trial.effective.get(HTTP).is_some_and(|version| version != "HTTP/3"));
    let mut announced = over_tls.filter_map(|trial| trial.effective.get(ALT_SVC)).peekable();
    let first = *announced.peek()?;
    let has_3 = |services: &String| services.split(',').any(|one| one.trim().starts_with("h3="));
    if announced.any(has_3) {
        return None;
    }
    let answers = seen
        .iter()
        .any(|trial| trial.effective.get(HTTP).is_some_and(|version| version == "HTTP/3"));
    let says = match first.as_str() {
        "none" => "has no Alt-Svc".to_owned(),
        other => format!("announces `{other}`"),
    };
    let but = if answers { ", though it answers HTTP/3 here" } else { "" };
    Some(FarEndRemark {
        message: format!(
            "over TLS the site {says}, and so offers no HTTP/3{but}; DNS records (HTTPS) were not looked at"
        ),
        advice: "browsers use HTTP/3 where Alt-Svc or a DNS record of the type HTTPS announces it (RFC 9114, 3.1; RFC 9460)",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_datapath::transport::Effective;

    fn effective(http: &str, document: &str, alt_svc: &str) -> Effective {
        let all = [(HTTP, http), (DOCUMENT, document), (ALT_SVC, alt_svc)];
        all.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }

    fn remarks(trials: &[(&str, Effective)]) -> Vec<String> {
        let seen = trials.iter().map(|(label, effective)| SeenTrial { label, effective });
        of(&seen.collect::<Vec<_>>()).into_iter().map(|remark| remark.message).collect()
    }

    #[test]
    fn nothing_is_said_of_a_site_that_stays_the_same_and_announces_http_3() {
        let services = "h2=\":443\", h3=\":443\"; ma=60";
        let [tls, quic] = ["HTTP/1.1", "HTTP/3"].map(|http| effective(http, "200, 5 B", services));
        assert_eq!(remarks(&[("tls", tls), ("quic", quic)]), [""; 0]);
        assert_eq!(remarks(&[]), [""; 0]);
    }

    #[test]
    fn a_document_that_changes_and_http_3_that_nobody_announces_are_named() {
        let said = remarks(&[
            ("tls", effective("HTTP/1.1", "200, 5 B", "none")),
            ("quic", effective("HTTP/3", "200, 6 B", "none")),
        ]);
        assert!(said[0].contains("200, 5 B (1 times, tls); 200, 6 B (1 times, quic)"), "{said:?}");
        assert!(
            said[1].contains("has no Alt-Svc, and so offers no HTTP/3, though it answers"),
            "{said:?}"
        );
        let said = remarks(&[("tls", effective("HTTP/1.1", "200, 5 to 6 B", "h2=\":1\""))]);
        assert!(
            said[0].contains("not the same") && said[1].contains("announces `h2=\":1\"`"),
            "{said:?}"
        );
    }

    #[test]
    fn visits_without_early_data_are_named() {
        let mut early = effective("HTTP/3", "200, 5 B", "none");
        early.insert("resume".to_owned(), identity::NO_EARLY_DATA.to_owned());
        let said = remarks(&[("quic", early)]);
        assert!(said[0].contains("1 trials of quic sent no early data"), "{said:?}");
    }
}
