"""The front end, construct by construct: text in, tree out (as an outline, see `testing.trees.outline`)."""

from humanlayer_agent.shell.syntax import parse
from humanlayer_agent.shell.syntax.tree import Function, Param, Sequence, Simple, Sub, simples
from tests.support.rows import for_each
from tests.support.trees import outline

CONSTRUCTS = [
    ("", ""),
    ("  \n# only a comment\n", ""),
    ("ls -l", "[ls -l]"),
    ("ls;", "[ls]"),
    ("ls\nrm x\n", "SEQ([ls] ; [rm x])"),
    ("ls & rm x &", "SEQ([ls] & [rm x] &)"),
    ("a && b || c; d", "SEQ([a] && [b] || [c] ; [d])"),
    ("a | b |& c", "PIPE([a] | [b] |& [c])"),
    ("a |\n\n b", "PIPE([a] | [b])"),
    ("a &&\n# c\nb", "SEQ([a] && [b])"),
    ("echo 'a b' \"c d\" e\\ f ''", "[echo 'a b' 'c d' e' 'f '']"),
    ("echo a'b'\"c\"d", "[echo a'bc'd]"),
    ("echo $'\\x72\\155\\u0041\\n'", "[echo 'rmA\n']"),
    ('echo $x ${x} "$x" "a${x}b" $1 $? $@', "[echo ${x}~ ${x}~ \"${x}\"~ 'a'\"${x}\"'b'~ ${1}~ ${?}~ ${@}~]"),
    (
        'echo ${x:-a b} ${x-"q"} ${x:=$(rm)} ${x#*/} ${x//a/b} ${x^^} ${x:1:2} ${x@Q}',
        "[echo ${x :- a b}~ ${x - 'q'}~ ${x := $([rm])~}~ ${x # */*}~ ${x // a/b}~ ${x ^^ }~ ${x : 1:2}~ ${x @ Q}~]",
    ),
    (
        "echo ${#x} ${!x} ${#x[@]} ${!x[@]} ${!x*} ${a[1]} ${a[$(rm)]} ${#}",
        "[echo ${x length}~ ${x !}~ ${x[@] length}~ ${x[@] !}~ ${x ! **}~ ${a[1]}~ ${a[$(rm)]<$([rm])>}~ ${#}~]",
    ),
    ('echo "${x:-a b}" "${x#*/}" "${x:-"q"}"', '[echo "${x :- \'a b\'}"~ "${x # */*}"~ "${x :- \'q\'}"~]'),
    ('echo $(ls | wc) `ls` "$(ls)" $()', '[echo $(PIPE([ls] | [wc]))~ $([ls])~ "$([ls])"~ $()~]'),
    ("echo $(ls\nrm x)", "[echo $(SEQ([ls] ; [rm x]))~]"),
    ('echo `a \\`b\\`` "`echo \\"x\\"`"', "[echo $([a $([b])~])~ \"$([echo 'x'])\"~]"),
    ('echo $((1 + $(rm) * ${x})) $[1+1] "$((2))"', '[echo $((1 + $(rm) * ${x}))<"$([rm])"><"${x}">~ $[1+1]~ $((2))~]'),
    ("diff <(a) >(b) x<(c)", "[diff <([a])~ >([b])~ x<([c])~]"),
    (
        'echo * a? [ab] [ {a,b} {1..3} {} {a} ~ ~/x a~ x=~/y x=1:~ \\* "*" {"a b",c}',
        "[echo ** a?* [ab]* [ {a,b}* {1..3}* {} {a} ~* ~/x* a~ x=~/y* x=1:~* '*' '*' {'a b',c}*]",
    ),
    ("x=1 y=$z cmd", "[x=1 y=${z}~ cmd]"),
    ("x=~/a:~/b y=* z={a,b}", "[x=~/a:~/b* y=* z={a,b}]"),
    (
        'x=(1 "b c" $(rm)) y+=(2) z[1]=2 w[$(rm)]+=3 a[i + 1]=4',
        "[x=(1 'b c' $([rm])~)~ y+=(2)~ z[1]=2 w[$(rm)]<$([rm])>+=3 a[i + 1]=4]",
    ),
    ("declare -a v=(1 2) w=3", "[declare -a v=(1 2)~ w=3]"),
    ('echo $"hello $(rm)"', '[echo "${ translate \'hello \'"$([rm])"~}"~]'),
    ("a > f 2>> g < h &> i &>> j >| k <> l 2>&1 <&- 3>&-", "[a >f 2>>g <h &>i &>>j >|k <>l 2>&1 <&- 3>&-]"),
    ("> f", "[>f]"),
    (">f x=1 cmd y=2", "[x=1 cmd y=2 >f]"),
    ("{fd}> f cmd", "[cmd {fd}>f]"),
    (">&-rm x", "[rm x >&-]"),
    ("2>& -rm x", "[rm x 2>&-]"),
    ('cat <<< "a $x"', "[cat <<<'a '\"${x}\"~]"),
    ("cat <<'E' > f\n$(not)\nE\nls", "SEQ([cat <<'E'<<'$(not)\n'>> >f] ; [ls])"),
    ("cat <<E\na $(rm) `rm` $x \\$y\nE", "[cat <<E<<'a '\"$([rm])\"' '\"$([rm])\"' '\"${x}\"' $y\n'~>>]"),
    ("cat <<-E\n\t\ta\n\tE\nls", "SEQ([cat <<-E<<'a\n'>>] ; [ls])"),
    ("cat <<A <<B | x\na\nA\nb\nB\ny", "SEQ(PIPE([cat <<A<<'a\n'>> <<B<<'b\n'>>] | [x]) ; [y])"),
    ("cat <<E\na\\\nb\nE", "[cat <<E<<'ab\n'>>]"),
    ("echo $(cat <<E\n$(rm)\nE\n)", "[echo $([cat <<E<<\"$([rm])\"'\n'~>>])~]"),
    ("(cd x && ls)", "SUB(SEQ([cd x] && [ls]))"),
    ("{ a; b; } > f", "GROUP(SEQ([a] ; [b])) >f"),
    ("{ a\nb\n}", "GROUP(SEQ([a] ; [b]))"),
    ("! a", "NOT([a])"),
    ("! a | b && c", "SEQ(NOT(PIPE([a] | [b])) && [c])"),
    ("! ! a", "[a]"),
    ("time a | b", "PIPE([a] | [b])"),
    ("time -p -- a", "[a]"),
    ("a | time b", "PIPE([a] | [time b])"),
    ("if a; then b; fi", "IF([a] -> [b])"),
    (
        "if a; then b; elif c; then d; elif e; then f; else g; fi > h",
        "IF([a] -> [b]; [c] -> [d]; [e] -> [f]; else [g]) >h",
    ),
    ("if a\nthen\nb\nelse\nif c; then d; fi\nfi", "IF([a] -> [b]; else IF([c] -> [d]))"),
    ("while a; do b; done < f", "WHILE([a] -> [b]) <f"),
    ("until ! a; do b & done", "UNTIL(NOT([a]) -> SEQ([b] &))"),
    ("for i in a $b; do c; done", "FOR(i in a ${b}~ -> [c])"),
    ("for i; do c; done", "FOR(i -> [c])"),
    ("for i do c; done", "FOR(i -> [c])"),
    ("for i in; do c; done > f", "FOR(i in -> [c]) >f"),
    ("for i in a b\ndo c\ndone", "FOR(i in a b -> [c])"),
    ("for i in a; { c; }", "FOR(i in a -> [c])"),
    ("for ((i=0; i<$(n); i++)); do c; done", 'ARITH(((i=0; i<$(n); i++))<"$([n])">~ -> [c])'),
    ("for ((;;)) { c; }", "ARITH(((;;))~ -> [c])"),
    ("select i in a b; do c; done", "SELECT(i in a b -> [c])"),
    ('case $x in a|"b") c;; (*) d; e & ;; f) esac', "CASE(${x}~: a|'b' -> [c]; ** -> SEQ([d] ; [e] &); f ->)"),
    ("case x in\n# note\na) b\n;;\nesac > f", "CASE(x: a -> [b]) >f"),
    ("case x in a) b;& c) d;;& *) e; esac", "CASE(x: a -> [b]; c -> [d]; ** -> [e])"),
    ("case x in esac", "CASE(x: )"),
    ("case x in a) case y in b) c;; esac;; esac", "CASE(x: a -> CASE(y: b -> [c]))"),
    ("f() { a; } > x", "FUNCTION(f -> GROUP([a]) >x)"),
    ("function f { a; }", "FUNCTION(f -> GROUP([a]))"),
    ("function f() ( a )", "FUNCTION(f -> SUB([a]))"),
    ("f()\n{ a; }", "FUNCTION(f -> GROUP([a]))"),
    ("f() if a; then b; fi", "FUNCTION(f -> IF([a] -> [b]))"),
    ("f() [[ a ]]", "FUNCTION(f -> TEST(a))"),
    ('[[ -f $x && ! ( a < b || "c" == *.py ) ]] > f', "TEST(-f ${x}~ && ! ( a < b || 'c' == *.py* )) >f"),
    ("[[ $x =~ ^(a|b c)[0-9]+$ ]]", "TEST(${x}~ =~ ^(a|b c)[0-9]+$*)"),
    ("[[ $x == @(a|b)* && y ]]", "TEST(${x}~ == @(a|b)** && y)"),
    ("[[ a ]] && b", "SEQ(TEST(a) && [b])"),
    ("if [[ a ]] then b; fi", "IF(TEST(a) -> [b])"),
    ("((x = $(rm) + 1)) && b", 'SEQ(((x = $(rm) + 1))<"$([rm])">~ && [b])'),
    ("((1 << 2)) > f", "((1 << 2))~ >f"),
    ("a \\\n  b \\\n&& c", "SEQ([a b] && [c])"),
    ("a;# c", "[a]"),
    ("echo a#b #c", "[echo a#b]"),
    ("coprocess x", "[coprocess x]"),
    ("echo if then { } ! time [[ in", "[echo if then { } ! time [[ in]"),
    ("2>(a) b", "[2>([a])~ b]"),
]


@for_each(("text", "expected"), CONSTRUCTS)
def test_construct(text: str, expected: str) -> None:
    assert outline(parse.read(text, [])) == expected


def first(text: str) -> Simple:
    script = parse.parse(text).script
    assert script is not None
    return next(simples(script))


def test_status_ok_has_no_reasons() -> None:
    found = parse.parse("ls $(pwd)")
    assert (found.status, found.reasons, found.witnesses) == ("ok", [], [])


def test_plain_word_needs_no_parts() -> None:
    bare, quoted = first("$(x) bare 'quoted'").words[1:]
    assert (bare.text, bare.quoted, bare.parts) == ("bare", False, [])
    assert (quoted.text, quoted.quoted, quoted.parts) == ("quoted", True, [])


def test_empty_quotes_before_a_glob_keep_the_glob_unquoted() -> None:
    word = first("''* $(x)").words[0]
    assert word.quoted
    assert word.pattern
    assert [part.quoted for part in word.parts] == [False]  # type: ignore[union-attr]


def test_static_is_the_text_only_where_that_is_certain() -> None:
    assert [word.static for word in first("a 'b c' *.py $x {a,b} ~ '*'").words] == ["a", "b c", *[None] * 4, "*"]


def test_script_in_an_index_is_found() -> None:
    for text in ("echo ${a[$(rm x)]}", "a[$(rm x)]=1 ls", "a[`rm x`]+=1", "echo ${a[1]:-$(rm x)}"):
        script = parse.read(text, [])
        assert ["rm", "x"] in [[word.text for word in command.words] for command in simples(script)], text


def test_script_in_a_translated_string_is_found_and_the_word_is_dynamic() -> None:
    word = first('echo $"a$(rm x)"').words[1]
    assert word.text is None
    (part,) = word.parts
    assert isinstance(part, Param)
    assert isinstance(part.arg.parts[1], Sub)  # type: ignore[union-attr]


def test_negation_is_a_sequence_that_runs_here() -> None:
    script = parse.read("! cd x && rm y", [])
    assert isinstance(script.body, Sequence)
    negated = script.body.parts[0]
    assert isinstance(negated, Sequence)
    assert negated.negated


def test_redirects_after_a_function_belong_to_its_body() -> None:
    body = parse.read("f() { a; } > x", []).body
    assert isinstance(body, Function)
    assert body.redirects == []
    assert [redirect.target.text for redirect in body.body.redirects] == ["x"]  # type: ignore[union-attr]


def test_heredoc_delimiter_says_whether_the_body_is_literal() -> None:
    plain, quoted = (first(text).redirects[0] for text in ("cat <<E $(x)\n$a\nE", "cat <<'E' $(x)\n$a\nE"))
    assert (plain.target.quoted, plain.body.dynamic) == (False, True)  # type: ignore[union-attr]
    assert (quoted.target.quoted, quoted.body.text) == (True, "$a\n")  # type: ignore[union-attr]
