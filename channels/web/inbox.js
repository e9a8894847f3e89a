// What a page of the inbox does by itself: it stays up to date, its title counts what waits, and keys lead through it.
// Nothing is decided here, and no key decides: `a` and `d` only lead to the button and to the reason. Without this
// script, everything can be done all the same.
"use strict";

const EVERY = 3000; // ms between two looks while the page can be seen
const HIDDEN = 10000; // and while it can't
const ARMED = 500; // ms after which Enter presses the button that a key has led to

const main = document.getElementById("main");
const keys = document.getElementById("keys");
const news = document.getElementById("news");
const list = main.dataset.page === "list";
let known = new Set(names(main));
let led = -ARMED; // when a key has last led to something

// What waits, by the ids of the requests.
function names(place) {
  return (place.dataset.waiting || "").split(" ").filter(Boolean);
}

// Whether a person is in the middle of something that must stay as it is.
function isSelecting(place) {
  const selected = document.getSelection();
  return selected !== null && !selected.isCollapsed && place.contains(selected.anchorNode);
}

// Each part that may change is taken from the new page. What is typed stands in none of them.
function update(fresh) {
  for (const part of main.querySelectorAll("[data-live]")) {
    const other = fresh.getElementById(part.id);
    if (other === null || other.innerHTML === part.innerHTML || isSelecting(part)) continue;
    const held = document.activeElement;
    const href = part.contains(held) ? held.getAttribute("href") : null;
    part.replaceChildren(...Array.from(other.childNodes, (node) => document.importNode(node, true)));
    const again = href === null ? undefined : links(part).find((link) => link.getAttribute("href") === href);
    if (again !== undefined) again.focus({ preventScroll: true });
  }
  const page = fresh.getElementById("main");
  if (main.dataset.open === "yes" && page.dataset.open !== "yes") close();
  const waiting = names(page);
  if (waiting.some((name) => !known.has(name))) ring();
  known = new Set(waiting);
  document.title = fresh.title;
}

// It was decided elsewhere: what was typed stays to be read, and can't be sent.
function close() {
  main.dataset.open = "no";
  for (const button of main.querySelectorAll(".decide button")) button.disabled = true;
  say("This request was settled meanwhile: nothing can be answered any more.");
}

function say(words) {
  if (news.textContent !== words) news.textContent = words;
}

async function look() {
  const address = new URL(location.href);
  address.hash = "";
  address.search = "look";
  try {
    const answer = await fetch(address, { cache: "no-store", credentials: "same-origin" });
    if (new URL(answer.url).pathname !== address.pathname) {
      say("You are logged out: load the page again, and log in.");
      return;
    }
    if (!answer.ok) throw new Error(String(answer.status));
    update(new DOMParser().parseFromString(await answer.text(), "text/html"));
    if (main.dataset.open !== "no" || list) say("");
  } catch (error) {
    say("The inbox does not answer: what stands here may be old.");
  }
  later();
}

let timer = 0;
function later() {
  clearTimeout(timer);
  timer = setTimeout(look, document.hidden ? HIDDEN : EVERY);
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) {
    clearTimeout(timer);
    look();
  }
});

// A sound, for those who want it: two short tones that the browser makes itself.

const sound = document.getElementById("sound");
const SETTING = "hla-sound";
let audio = null;

function ready() {
  if (sound.checked) {
    audio = audio || new AudioContext();
    if (audio.state === "suspended") audio.resume();
  }
}

function ring() {
  if (!sound.checked || audio === null) return;
  main.dataset.rung = String(Number(main.dataset.rung || 0) + 1);
  for (const [begin, pitch] of [[0, 660], [0.18, 880]]) {
    const tone = audio.createOscillator();
    const volume = audio.createGain();
    const at = audio.currentTime + begin;
    tone.frequency.value = pitch;
    volume.gain.setValueAtTime(0.12, at);
    volume.gain.exponentialRampToValueAtTime(0.001, at + 0.16);
    tone.connect(volume).connect(audio.destination);
    tone.start(at);
    tone.stop(at + 0.17);
  }
}

sound.checked = localStorage.getItem(SETTING) === "on";
sound.addEventListener("change", () => {
  localStorage.setItem(SETTING, sound.checked ? "on" : "off");
  ready();
  ring();
});
for (const gesture of ["pointerdown", "keydown"]) document.addEventListener(gesture, ready); // no sound before one

// Keys

function links(place) {
  return Array.from(place.querySelectorAll("#waiting-list .command a"));
}

function move(by) {
  const all = links(main);
  const at = all.indexOf(document.activeElement);
  const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1)];
  if (next !== undefined) lead(next);
}

function lead(element) {
  if (!element) return;
  const folded = element.closest("details");
  if (folded) folded.open = true;
  element.focus({ preventScroll: true });
  element.scrollIntoView({ block: "center" });
  led = performance.now();
}

const DOES = list
  ? { j: () => move(1), k: () => move(-1) }
  : {
      a: () => lead(main.querySelector("button.approve")),
      d: () => lead(document.getElementById("reason")),
      e: () => lead(document.getElementById("new")),
      r: () => lead(document.getElementById("words")),
      u: () => main.querySelector("nav a")?.click(),
    };

function isTyping(element) {
  return element.matches("input:not([type=checkbox]), textarea, select, [contenteditable]");
}

document.addEventListener("keydown", (event) => {
  const place = document.activeElement || document.body;
  if (event.key === "Escape" && isTyping(place)) place.blur();
  if ((event.key === "Enter" || event.key === " ") && place.matches("button")) {
    // Typed ahead, or a key that is held down: nobody can have meant what has only just been reached.
    if (event.repeat || performance.now() - led < ARMED) event.preventDefault();
    return;
  }
  if (event.ctrlKey || event.altKey || event.metaKey || event.repeat || isTyping(place)) return;
  const act = Object.hasOwn(DOES, event.key) ? DOES[event.key] : null;
  if (act) {
    event.preventDefault();
    act();
  }
});

keys.hidden = false;
later();
