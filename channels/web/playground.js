// The playground: what is typed is judged while it is typed, by the same form that the button sends. Of the answer, the
// parts that are not typed in are taken over. Without this script, the button does it.
"use strict";

const PAUSE = 300; // ms without a key after which it is judged
const AGAIN = 1500; // and after which it is tried again, where too much was judged at once

const form = document.getElementById("trial");
const policy = document.getElementById("policy");
const verdict = document.getElementById("verdict");
const news = document.getElementById("news");
let timer = 0;
let asked = null;

function say(words) {
  if (news.textContent !== words) news.textContent = words;
}

function soon(pause) {
  clearTimeout(timer);
  timer = setTimeout(judge, pause);
}

async function judge() {
  clearTimeout(timer);
  if (asked !== null) asked.abort();
  const mine = (asked = new AbortController());
  form.dataset.state = "judging";
  verdict.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(location.href, {
      method: "POST", body: new URLSearchParams(new FormData(form)), signal: mine.signal, cache: "no-store",
    });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (mine !== asked) return;
    for (const part of document.querySelectorAll("[data-part]")) {
      const other = page.getElementById(part.id);
      if (other === null) throw new Error("no answer");
      const open = Array.from(part.querySelectorAll("details"), (each) => each.open);
      part.replaceChildren(...Array.from(other.childNodes, (node) => document.importNode(node, true)));
      part.querySelectorAll("details").forEach((each, at) => { each.open = open[at] === true; });
    }
    say("");
    lead();
    form.dataset.state = "judged";
    verdict.setAttribute("aria-busy", "false");
    if (answer.status === 503) soon(AGAIN);
  } catch (error) {
    if (mine !== asked || error.name === "AbortError") return;
    form.dataset.state = "failed";
    say("The playground does not answer: what stands here is of before. (It ends with hla policy serve.)");
  }
}

// The line of a mistake becomes a button that leads to it.
function lead() {
  policy.setAttribute("aria-invalid", String(document.querySelector("#verdict [data-line]") !== null));
  for (const line of document.querySelectorAll("[data-line]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "inline";
    button.textContent = line.textContent;
    button.addEventListener("click", () => choose(Number(line.dataset.line) - 1));
    line.replaceWith(button);
  }
}

function choose(at) {
  const lines = policy.value.split("\n");
  const begin = lines.slice(0, at).reduce((sum, each) => sum + each.length + 1, 0);
  policy.focus();
  policy.setSelectionRange(begin, begin + (lines[at] || "").length);
  policy.scrollTop = (policy.scrollHeight / lines.length) * Math.max(0, at - 4);
}

form.addEventListener("input", () => soon(PAUSE));
form.addEventListener("submit", (event) => {
  event.preventDefault();
  judge();
});
form.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) judge();
});
judge();
