"""The earlier path of `humanlayer_agent.agents.mini.docker`, kept for one release."""

from humanlayer_agent.agents.mini.docker import SupervisedDockerEnvironment as SupervisedDockerEnvironment
