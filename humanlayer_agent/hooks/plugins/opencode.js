// Written by `hla init --opencode`: asks `hla hook opencode` before each call of a tool, and lets it be made only where
// the answer says so in time. Whatever goes wrong is a refusal.
import { spawn } from "node:child_process"

const COMMAND = @COMMAND@
const LATE_MS = @LATE@

const ask = (question, directory) =>
  new Promise((resolve, reject) => {
    const env = { ...process.env, OPENCODE_PROJECT_DIR: directory }
    const child = spawn(COMMAND[0], COMMAND.slice(1), { env, stdio: ["pipe", "pipe", "ignore"] })
    const late = setTimeout(() => {
      child.kill("SIGKILL")
      reject(new Error("no answer came in time"))
    }, LATE_MS)
    let out = ""
    child.stdout.setEncoding("utf8")
    child.stdout.on("data", (text) => (out += text))
    child.stdin.on("error", () => {})
    child.on("error", reject)
    child.on("close", () => {
      clearTimeout(late)
      resolve(out)
    })
    child.stdin.end(question)
  })

export const HumanlayerAgent = async ({ directory }) => ({
  "tool.execute.before": async (input, output) => {
    const given = JSON.stringify(output.args ?? {})
    const question = {
      hook_event_name: "tool.execute.before",
      session_id: input.sessionID,
      tool_use_id: input.callID,
      cwd: directory,
      tool_name: input.tool,
      tool_input: JSON.parse(given),
    }
    let reply
    try {
      reply = JSON.parse(await ask(JSON.stringify(question), directory))
    } catch (error) {
      throw new Error(`humanlayer-agent could not judge this, so it was not run: ${error.message}`)
    }
    if (reply.decision !== "allow" && reply.decision !== "none") {
      throw new Error(reply.reason || "humanlayer-agent did not allow this")
    }
    if (JSON.stringify(output.args ?? {}) !== given) throw new Error("the call was changed while it was judged")
    if (reply.command) output.args.command = reply.command
  },
})
