//! The person's own work comes back byte for byte.

use crate::env;

#[test]
fn undo_brings_worktree_and_index_back() {
    let env = env();
    env.shell(
        "git init -q . && git config user.email a@b && git config user.name n && printf 'one\\r\\ntwo' >crlf && printf '\\000\\377' >binary \
         && echo tracked >t && git add -A && git commit -qm base && echo staged >>t && git add t && echo unstaged >>t \
         && echo untracked >'odd  \"name\"' && ln -s t link && chmod 751 binary && mkdir empty",
    );
    let picture = "git status --porcelain=v1 -z | od -c; git diff | od -c; git diff --cached | od -c; \
                   find . -path ./.git -prune -o -path ./.loopexec -prune -o -printf '%p %y %m %l\\n' | sort; cat t crlf binary | od -c";
    let before = env.shell(picture);
    let exec = "rm -f t link binary; echo changed >crlf; rm -f odd*; echo new >new; rmdir empty; git add -A; git commit -qm agent || true; touch done";
    assert_eq!(
        env.run(&["run", "--exec", exec, "--check", "test -f done"])
            .code,
        10
    );
    let undone = env.run(&["runs", "undo"]);
    assert_eq!(undone.code, 0, "{} {}", undone.stdout, undone.stderr);
    env.shell("git reset -q --soft HEAD~1");
    assert_eq!(env.shell(picture), before);
    let kept = env.shell("git for-each-ref --format='%(refname)' refs/loopexec");
    assert!(kept.contains("refs/loopexec/local/undo-1"), "{kept}");
}
