//! Keys of a whole path that name hosts: roles, routes, and times at which hosts are down.

use super::hosts;
use crate::network;
use deadheat_base::spec::Key;

pub(super) const NEAR: Key = Key::own(network::NEAR, "HOST", hosts::check_name)
    .doc("of several hosts, the one that opens connections; not set: the first that a link names");

pub(super) const FAR: Key = Key::own(network::FAR, "HOST", hosts::check_name)
    .doc("of several hosts, the one where servers listen; not set: the last that a link names");

pub(super) const RELAY: Key = Key::own(network::RELAY, "HOST", hosts::check_name).doc(
    "of several hosts, the one where the relay of `via=relay` and `via=coturn` runs; \
     not set: the far one",
);

pub(super) const RECEIVERS: Key = Key::own(network::RECEIVERS, "HOST/HOST/…", hosts::check_names)
    .doc("of several hosts, those of the far ends of work that has several, which are dealt over them in order; far, \
     if not set, is the first of them");

pub(super) const LOAD: Key = Key::own(network::LOAD, "HOST/HOST", hosts::check_names)
    .doc("of several hosts, the two between which the load beside the work runs, its near end first; not set: near and \
     far");

pub(super) const PEOPLE: Key = Key::own(network::PEOPLE, "HOST/HOST/…", hosts::check_names).doc(
    "of several hosts, those of a session, in order; near and far, if not set, are the \
     first and the last of them",
);

pub(super) const HOST_DOWN: Key =
    Key::own("host-down", "HOST@FROM-TO", |typed| hosts::down(typed).map(drop)).doc(
        "times at which all links of a host are down, since the path began: \
         vancouver@10s-13s/20s-21s/isp@5s-6s",
    );

pub(super) const ROUTE: Key = Key::own("route", "HOST/HOST/…", hosts::check_routes)
    .doc("the way to the last of these hosts from each before it, as a/r/b; several with a bar between them; not set: \
     the quickest. While a link of it is down, `reroute` finds another");
