//! Indicators: the lights by which a machine is found in its rack.

use serde_json::Value;
use serde_json::json;
use wrought_wire::state::IndicatorState;

use super::Client;
use super::Error;
use super::Result;
use super::http::Reply;
use super::json;

/// Chassis that are looked at, at most.
const CHASSIS: usize = 8;

/// One light.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Light {
    /// `system` or `chassis`.
    pub component: &'static str,
    /// Id of the resource that has it.
    pub name: String,
    /// Whether it can be set, as far as the service shows.
    pub settable: bool,
    /// States that it can have.
    pub states: Vec<IndicatorState>,
    /// Its state.
    pub state: IndicatorState,
    path: String,
}

impl Light {
    /// Newer services have a switch, older ones a state with three values.
    fn of(component: &'static str, path: &str, body: &Value) -> Option<Self> {
        let switch = body
            .pointer("/LocationIndicatorActive")
            .and_then(Value::as_bool);
        let (states, state) = match (switch, json::text(body, "/IndicatorLED")) {
            (Some(on), _) => {
                let state = if on {
                    IndicatorState::On
                } else {
                    IndicatorState::Off
                };
                (vec![IndicatorState::Off, IndicatorState::On], state)
            }
            (None, Some(word)) => {
                let states = [
                    IndicatorState::Blinking,
                    IndicatorState::Off,
                    IndicatorState::On,
                ];
                (states.to_vec(), read(word))
            }
            (None, None) => return None,
        };
        let last = path.trim_end_matches('/').rsplit('/').next();
        Some(Self {
            component,
            name: json::text(body, "/Id").or(last)?.to_owned(),
            settable: true,
            states,
            state,
            path: path.to_owned(),
        })
    }
}

fn read(word: &str) -> IndicatorState {
    match word {
        "Lit" => IndicatorState::On,
        "Off" => IndicatorState::Off,
        "Blinking" => IndicatorState::Blinking,
        _ => IndicatorState::Unknown,
    }
}

const fn word(state: IndicatorState) -> Option<&'static str> {
    match state {
        IndicatorState::On => Some("Lit"),
        IndicatorState::Off => Some("Off"),
        IndicatorState::Blinking => Some("Blinking"),
        IndicatorState::Unknown => None,
    }
}

impl Client {
    /// The lights of the system and of the chassis that it is in.
    pub async fn lights(&self) -> Result<Vec<Light>> {
        Ok(self
            .read_lights()
            .await?
            .into_iter()
            .map(|(light, _)| light)
            .collect())
    }

    async fn read_lights(&self) -> Result<Vec<(Light, Reply)>> {
        let (path, system) = self.read_system().await?;
        let chassis = json::links(&system.body, "/Links/Chassis");
        let mut found = Vec::new();
        if let Some(light) = Light::of("system", &path, &system.body) {
            found.push((light, system));
        }
        for path in chassis.into_iter().take(CHASSIS) {
            if let Some(reply) = self.optional(&path).await?
                && let Some(light) = Light::of("chassis", &path, &reply.body)
            {
                found.push((light, reply));
            }
        }
        Ok(found)
    }

    /// Sets a light that [`Client::lights`] has told of.
    pub async fn set_light(
        &self,
        component: &str,
        name: &str,
        state: IndicatorState,
    ) -> Result<()> {
        let lights = self.read_lights().await?;
        let of = |(light, _): &&(Light, Reply)| light.component == component && light.name == name;
        let Some((light, reply)) = lights.iter().find(of) else {
            return Err(Error::NotFound {
                path: self.system_path().await?.to_owned(),
                expected: format!("an indicator {name} of the {component}"),
            });
        };
        let offered = || light.states.iter().map(|state| state.as_str());
        let body = match word(state).filter(|_| light.states.contains(&state)) {
            None => {
                return Err(Error::Unsupported {
                    path: light.path.clone(),
                    wanted: format!("indicator state {state}"),
                    offered: offered().collect::<Vec<_>>().join(", "),
                });
            }
            Some(_) if reply.body.get("LocationIndicatorActive").is_some() => {
                json!({"LocationIndicatorActive": state == IndicatorState::On})
            }
            Some(word) => json!({"IndicatorLED": word}),
        };
        self.patch(&light.path, &body, reply.etag.as_deref())
            .await
            .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wrought_wire::state::IndicatorState;

    use super::Light;

    #[test]
    fn both_generations() {
        let path = "/redfish/v1/Systems/1";
        let old = Light::of("system", path, &json!({"IndicatorLED": "Blinking"})).unwrap();
        assert_eq!(
            (old.name.as_str(), old.state),
            ("1", IndicatorState::Blinking)
        );
        let body = json!({"Id": "a", "IndicatorLED": "Off", "LocationIndicatorActive": true});
        let new = Light::of("system", path, &body).unwrap();
        assert_eq!(
            (new.name.as_str(), new.state, new.states.len()),
            ("a", IndicatorState::On, 2)
        );
        assert_eq!(Light::of("system", path, &json!({})), None);
    }
}
