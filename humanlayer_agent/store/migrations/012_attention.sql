-- Version 12: how quickly, and how often, somebody approves is found from their answers.

CREATE INDEX vote_person ON vote (person, answer, at);
