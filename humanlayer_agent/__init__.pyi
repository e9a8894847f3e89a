from humanlayer_agent.action import Action as Action
from humanlayer_agent.agents.mini import HumanLayerAgent as HumanLayerAgent
from humanlayer_agent.agents.mini import SupervisedAgent as SupervisedAgent
from humanlayer_agent.agents.mini import SupervisedLocalEnvironment as SupervisedLocalEnvironment
from humanlayer_agent.agents.python_gate import Gate as Gate
from humanlayer_agent.agents.require_approval import require_approval as require_approval
from humanlayer_agent.errors import ActionDenied as ActionDenied
from humanlayer_agent.policy.decision import PolicyDecision as PolicyDecision
from humanlayer_agent.policy.decision import Verdict as Verdict
from humanlayer_agent.policy.director import Director as Director

__version__: str
