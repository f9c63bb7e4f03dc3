select p.id, p.name, p.window_start
from (
    select id, name, window_start, window_end
    from tumble(person, date_time, interval '10' second)
    group by id, name, window_start, window_end
) p
join (
    select seller, window_start, window_end
    from tumble(auction, date_time, interval '10' second)
    group by seller, window_start, window_end
) a on p.id = a.seller and p.window_start = a.window_start and p.window_end = a.window_end
