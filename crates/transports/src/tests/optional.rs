//! Tests of the contenders that a build may leave out.

use crate::optional::ALL;
use deadheat_datapath::transport::Contender;
use deadheat_datapath::transport::optional::Presence;

#[test]
fn what_is_left_out_says_how_to_get_it_and_what_is_built_is_listed() {
    for optional in ALL {
        let listed = crate::ALL.iter().find(|t| t.info().id == optional.id);
        let parsed = Contender::parse(optional.id).map_err(|error| error.to_string());
        match optional.presence {
            Presence::Built => {
                assert_eq!(listed.map(|t| t.info().summary), Some(optional.summary));
                assert!(parsed.is_ok(), "{parsed:?}");
            }
            Presence::Nowhere(_) => {
                assert!(listed.is_none(), "{}", optional.id);
                let said = parsed.unwrap_err();
                assert!(said.starts_with(&format!("{}: ", optional.id)), "{said}");
                assert!(said.contains("`quic` (quinn)"), "{said}");
            }
            Presence::LeftOut => {
                assert!(listed.is_none(), "{}", optional.id);
                let said = parsed.unwrap_err();
                assert!(said.contains(&format!("--features {}", optional.id)), "{said}");
                let said_where = match optional.takes {
                    None => said.contains("each package of a release has it"),
                    Some(tools) => said.contains("as all packages do") && said.contains(tools),
                };
                assert!(said_where, "{said}");
            }
        }
    }
}
