select id, item_name, seller, category, auction, bidder, price, bid_time
from (
    select
        a.id, a.item_name, a.seller, a.category, b.auction, b.bidder, b.price, b.date_time as bid_time,
        row_number() over (partition by a.id order by b.price desc, b.date_time, b.id) as place
    from auction a
    join bid b on a.id = b.auction and b.date_time between a.date_time and a.expires
) q
where place <= 1
