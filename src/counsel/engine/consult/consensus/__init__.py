"""`consensus`: asks several models, which may then read each other's answers and refine their own.

`panel.py` chooses the models, `members.py` names them, `rounds.py` asks them, `anonymous.py` hides their names from
each other, `vote.py` counts their choices, `judge.py` compares their answers, `outcome.py` builds the result;
`course.py` runs all of it.
"""
