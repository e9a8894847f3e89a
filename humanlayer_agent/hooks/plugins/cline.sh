#!/bin/sh
# Written by `hla init --cline`: asks `hla hook cline` before each call of a tool. Cline goes on whatever the exit code
# is; what stops it is a word, so that one is said wherever there is no answer.
CLINE_PROJECT_DIR="$PWD"
export CLINE_PROJECT_DIR
answer=$(@COMMAND@)
case $answer in
*'
'*) printf '%s\n' '{"cancel": true, "errorMessage": "humanlayer-agent gave two answers, so it was not run"}' ;;
'{"cancel": '*'}') printf '%s\n' "$answer" ;;
*) printf '%s\n' '{"cancel": true, "errorMessage": "humanlayer-agent could not judge this, so it was not run"}' ;;
esac
