//! Nodes given on a command line.

use tombolo::nodes::{NodeInfo, Target};
use tombolo::{Domain, Error};
use tombolo_machine::suggest;
use tombolo_placement::{AUTO, Auto, Facts, Needs, Placement, PlacementError, position};

use crate::failure::Failure;

/// Returns the node of that name. An unknown name is an error of the machine, with status 1, and not of the
/// command line, for all commands.
///
/// # Errors
/// [`Fault::NoSuchNode`](tombolo::error::Fault::NoSuchNode) with the existing names.
pub fn node_named<'a>(nodes: &'a [NodeInfo], name: &str) -> Result<&'a NodeInfo, Error> {
    position(nodes, name).map(|index| &nodes[index])
}

/// Converts an error of placing ranks: wrong numbers are usage errors, unknown nodes are errors of the
/// machine.
#[must_use]
pub fn placement_failure(error: PlacementError) -> Failure {
    match error {
        PlacementError::Count(message) => Failure::Usage { message, hint: None },
        PlacementError::Machine(error) => error.into(),
        error @ PlacementError::NoFit { .. } => error.into(),
    }
}

/// Parses the value of `--needs`.
///
/// # Errors
/// The mistake, with the nearest valid word.
pub fn needs(text: &str) -> Result<Needs, String> {
    text.parse::<Needs>().map_err(|error| match error.misspelt() {
        Some((word, known)) => match suggest::nearest(word, known) {
            Some(meant) => format!("{error}; did you mean '{meant}'?"),
            None => error.to_string(),
        },
        None => error.to_string(),
    })
}

/// Returns the nodes of `--on`, checked against `--needs`, which applies to `auto`; needs alone imply `auto`.
///
/// # Errors
/// Needs without a node to choose, because all are named.
pub fn with_needs(on: &[Placement], needs: Option<&Needs>) -> Result<Vec<Placement>, Failure> {
    if needs.is_none() || on.iter().any(Placement::is_auto) {
        return Ok(on.to_vec());
    }
    if !on.is_empty() {
        let message = "--needs chooses nodes, but --on names all of them".to_owned();
        return Err(Failure::Usage {
            message,
            hint: Some("write --on auto, or auto:COUNT beside other nodes"),
        });
    }
    Ok(vec![Placement { node: AUTO.to_owned(), count: None }])
}

/// Prepares the choice of nodes for the entries `auto` of `on`, if there are any, taking earlier placements
/// into account: only nodes with one of the builds, if known.
///
/// # Errors
/// An error of the machine.
pub fn prepare_auto(
    auto: &mut Option<Auto>,
    domain: &Domain,
    on: &[Placement],
    needs: Option<&Needs>,
    targets: Option<Vec<Target>>,
) -> Result<(), Error> {
    if on.iter().any(Placement::is_auto) {
        let needs = needs.cloned().unwrap_or_default();
        let facts = Facts::query(domain, &needs)?;
        match auto {
            Some(auto) => auto.update(facts, needs, targets),
            None => *auto = Some(Auto::new(facts, needs, targets)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_need_gets_a_suggestion() {
        assert!(needs("memry>=1G").unwrap_err().ends_with("did you mean 'memory'?"));
        assert!(needs("isa=aarch46").unwrap_err().ends_with("did you mean 'aarch64'?"));
        assert!(!needs("memory>=x").unwrap_err().contains("did you mean"));
        assert_eq!(needs("near=arm0").unwrap().near, ["arm0"]);
    }

    #[test]
    fn needs_beside_node_names_are_an_error() {
        let on = |text: &str| -> Vec<Placement> {
            text.split(',').filter(|it| !it.is_empty()).map(|it| it.parse().unwrap()).collect()
        };
        let some = Needs::default();
        assert_eq!(with_needs(&on(""), Some(&some)).unwrap(), on("auto"));
        assert_eq!(with_needs(&on("host,auto:2"), Some(&some)).unwrap(), on("host,auto:2"));
        assert_eq!(with_needs(&on("host"), None).unwrap(), on("host"));
        assert_eq!(with_needs(&on("host"), Some(&some)).unwrap_err().status(), 2);
    }
}
