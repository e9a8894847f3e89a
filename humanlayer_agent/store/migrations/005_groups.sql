-- Version 5: answers of people who are approvers by a group that somebody else keeps: the group identities (a JSON list)
-- that the channel had verified them to be in. They are part of what is signed.

ALTER TABLE vote ADD COLUMN member_of TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(member_of));
