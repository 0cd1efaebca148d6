%% Erlang/OTP, the same protocol as _peers/serve.py.
-module(erlang_peer).
-export([main/0]).

main() ->
    case io:get_line("") of
        eof -> halt();
        Line ->
            [Bench, Ops, Actors] = string:lexemes(Line, "[\", ]\n"),
            {Done, Wall} = bench(Bench, list_to_integer(Ops), list_to_integer(Actors)),
            io:format("{\"ops\": ~b, \"wall\": ~.9f}~n", [Done, Wall]),
            main()
    end.

bench("ring", Ops, Actors) -> ring(Ops, Actors);
bench("tell", Ops, _) -> tell(Ops);
bench("ask-plain", Ops, _) -> ask(Ops);
bench("spawn", Ops, Actors) -> spawn_and_stop(Ops, Actors).

since(Start) ->
    (erlang:monotonic_time(nanosecond) - Start) / 1.0e9.

ring(Ops, Actors) ->
    Me = self(),
    First = spawn(fun() -> receive {next, Next} -> node(Next, Me) end end),
    Second = lists:foldl(fun(_, Next) -> spawn(fun() -> node(Next, Me) end) end,
                         First, lists:seq(2, Actors)),
    First ! {next, Second},
    Start = erlang:monotonic_time(nanosecond),
    First ! Ops,
    receive done -> ok end,
    Wall = since(Start),
    First ! stop,
    {Ops, Wall}.

node(Next, Me) ->
    receive
        stop -> Next ! stop;
        1 -> Me ! done, node(Next, Me);
        Left -> Next ! Left - 1, node(Next, Me)
    end.

%% Bursts of 1,000 messages, each waited for.
tell(Ops) ->
    Me = self(),
    Counter = spawn(fun() -> counter(1000, Me) end),
    Times = max(Ops div 1000, 1),
    Start = erlang:monotonic_time(nanosecond),
    repeat(Times, fun() ->
        repeat(1000, fun() -> Counter ! poke end),
        receive done -> ok end
    end),
    Wall = since(Start),
    Counter ! stop,
    {Times * 1000, Wall}.

counter(0, Me) -> Me ! done, counter(1000, Me);
counter(Left, Me) ->
    receive
        poke -> counter(Left - 1, Me);
        stop -> ok
    end.

ask(Ops) ->
    Oracle = spawn(fun oracle/0),
    Start = erlang:monotonic_time(nanosecond),
    repeat(Ops, fun() ->
        Ref = make_ref(),
        Oracle ! {ask, self(), Ref},
        receive {Ref, 7} -> ok end
    end),
    Wall = since(Start),
    Oracle ! stop,
    {Ops, Wall}.

oracle() ->
    receive
        {ask, From, Ref} -> From ! {Ref, 7}, oracle();
        stop -> ok
    end.

%% So many alive at once: each is sent a message, counts it, and is stopped and waited for.
spawn_and_stop(Ops, Actors) ->
    Me = self(),
    Times = max(Ops div Actors, 1),
    Start = erlang:monotonic_time(nanosecond),
    repeat(Times, fun() ->
        Made = [begin
            One = spawn_monitor(fun() -> once(Me) end),
            element(1, One) ! poke,
            One
        end || _ <- lists:seq(1, Actors)],
        [receive poked -> ok end || _ <- Made],
        [Pid ! stop || {Pid, _} <- Made],
        [receive {'DOWN', Ref, process, Pid, _} -> ok end || {Pid, Ref} <- Made]
    end),
    {Times * Actors, since(Start)}.

once(Me) ->
    receive
        poke -> Me ! poked, once(Me);
        stop -> ok
    end.

repeat(0, _) -> ok;
repeat(Times, Do) -> Do(), repeat(Times - 1, Do).
