"""SQL for sqlite3, psql and mysql (mariadb): which tables it reads, changes or deletes, and what reaches beyond them.

The tokens are divided by a lexer of our own (`lexer`), one expression a dialect, and judged by lists (`functions.yaml`,
`dangers.yaml`). Libraries were measured first, on 90 statements of the three dialects and 17 hostile texts:

- sqlglot 30.30 (MIT, 8.2 MB, import 190 to 240 ms, 0.7 to 1.1 ms a statement) hands 26 statements back as an opaque
  `Command` (VACUUM INTO, COPY ... PROGRAM, DO, ALTER SYSTEM, SET ROLE, GRANT) and has an error for five of MySQL
  (INTO OUTFILE, LOAD DATA). It takes MySQL's executable comments `/*! DROP TABLE t */` for comments and returns
  nothing, lets comments of SQLite nest, which they don't, and reads `U&"pg_read\\005Ffile"` as an operator.
- tree-sitter-sql 0.3.13 (MIT, 14 MB, import 30 ms) has errors in 46 of the 90, and misses the same comments.
- pglast 8.8 (GPL-3.0-or-later, 33 MB, import 310 to 440 ms) has PostgreSQL's own parser: one dialect of three.
- sqlparse 0.6 (BSD, import 20 ms) divides for formatting: it knows no dialect.

What decides about harm is where strings, comments and statements end, and what is called. That is a page of each
manual, and the rest is refused: a text that settings of a server read in two ways is code that nobody has read.
"""
