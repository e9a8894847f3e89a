from humanlayer_agent.action import Action as Action
from humanlayer_agent.agents.async_gate import AsyncGate as AsyncGate
from humanlayer_agent.agents.human_tool import human_as_tool as human_as_tool
from humanlayer_agent.agents.mini import HumanLayerAgent as HumanLayerAgent
from humanlayer_agent.agents.mini import SupervisedAgent as SupervisedAgent
from humanlayer_agent.agents.mini import SupervisedLocalEnvironment as SupervisedLocalEnvironment
from humanlayer_agent.agents.python_gate import Gate as Gate
from humanlayer_agent.agents.require_approval import require_approval as require_approval
from humanlayer_agent.approvals.denial_texts import denial_text as denial_text
from humanlayer_agent.approvals.model import Denial as Denial
from humanlayer_agent.approvals.model import Outcome as Outcome
from humanlayer_agent.approvals.model import Permit as Permit
from humanlayer_agent.approvals.model import Waiting as Waiting
from humanlayer_agent.errors import ActionDenied as ActionDenied
from humanlayer_agent.policy.decision import PolicyDecision as PolicyDecision
from humanlayer_agent.policy.decision import Verdict as Verdict
from humanlayer_agent.policy.director import Director as Director

__version__: str
